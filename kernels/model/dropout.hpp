/// Sets a random share of the elements to zero.
#pragma once

#include <nullscope/core/view.hpp>

#include "kernels/linalg/row.hpp"

namespace nullscope::kernels {

/// y (1, rows, columns) = scale x where uniform >= probability, else 0. y may be x. One group per row.
template <class T, int W, int Items>
struct dropout {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;

  view<const T, 3> x, uniform;
  view<T, 3> y;
  T probability, scale;
  std::int64_t rows_per_group;
  std::int64_t busy_groups = all_groups;  // the launch sets it, and puts several into a work-group

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    const group<Items> members(item, local, busy_groups);
    const pack<T, W> bound(probability), factor(scale), zero(T(0));
    for (row_range rows(x, members.number(), rows_per_group); !rows.empty(); rows.advance(1)) {
      const row_index i = rows.current();
      walk<W, 1>(members, x.extent[2], [&](auto, std::int64_t c, auto lanes) {
        const pack<T, W> kept = factor * row_of<W>(x, i).load(c, lanes);
        row_of<W>(y, i).store(c, where_less(row_of<W>(uniform, i).load(c, lanes), bound, zero, kept), lanes);
      });
    }
  }
};

}  // namespace nullscope::kernels

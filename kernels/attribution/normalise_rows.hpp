/// Rows divided by their norms, for power iterations.
#pragma once

#include <nullscope/core/view.hpp>

#include "kernels/linalg/row.hpp"

namespace nullscope::kernels {

/// norm (batch, rows) = |x| of each row of x (batch, rows, columns), and x /= norm; a row of zeros stays.
template <class T, int W, int Items>
struct normalise_rows {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;
  using numbers = pack<T, W>;

  view<T, 3> x;
  view<T, 2> norm;
  std::int64_t rows_per_group;
  std::int64_t busy_groups = all_groups;  // the launch sets it, and puts several into a work-group

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    group<Items> members(item, local, busy_groups);
    for (row_range rows(x, members.number(), rows_per_group); !rows.empty(); rows.advance(1)) {
      const row_index i = rows.current();
      const row<T, W> of = row_of<W>(x, i);
      numbers squares(T(0));
      walk<W, 1>(members, x.extent[2], [&](auto, std::int64_t c, auto lanes) {
        const numbers value = of.load(c, lanes);
        squares = fma(value, value, squares);
      });
      const T length = sycl::sqrt(members.sum(squares));
      if (members.rank() == 0) norm(i.batch, i.row) = length;
      if (length == T(0)) continue;
      const numbers factor(1 / length);
      walk<W, 1>(members, x.extent[2],
                 [&](auto, std::int64_t c, auto lanes) { of.store(c, of.load(c, lanes) * factor, lanes); });
    }
  }
};

}  // namespace nullscope::kernels

/// The entropy of the rows of a batch of matrices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <nullscope/core/view.hpp>

#include "kernels/linalg/row.hpp"
#include "kernels/simd/pack_log.hpp"

namespace nullscope::kernels {

/// out (batch, rows) = -sum_j a_ij ln a_ij for a (batch, rows, columns), in nats. What is below the smallest normal
/// number adds nothing. A group takes `rows_per_group` rows.
template <class T, int W, int Items>
struct row_entropy {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;
  using numbers = pack<T, W>;

  view<const T, 3> a;
  view<T, 2> out;
  std::int64_t rows_per_group;
  std::int64_t busy_groups = all_groups;  // the launch sets it, and puts several into a work-group

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    group<Items> members(item, local, busy_groups);
    for (row_range rows(a, members.number(), rows_per_group); !rows.empty(); rows.advance(1)) {
      const row_index i = rows.current();
      const auto from = row_of<W>(a, i);
      T total[1];
      reduce_rows<T, W>(
          members, a.extent[2], T(0),
          [&](int, std::int64_t column, auto lanes) {
            const numbers weight = from.load(column, lanes), least(std::numeric_limits<T>::min());
            // The logarithm of NaN is some number, so that the product stays NaN.
            return where_less(weight, least, numbers(T(0)), weight * log_of_normal(weight));
          },
          [](auto element, auto sum) { return sum - element; }, [](auto x, auto y) { return x + y; }, total);
      if (members.rank() == 0) out(i.batch, i.row) = total[0];
    }
  }
};

}  // namespace nullscope::kernels

/// Weighted sums of absolute values along the rows of a batch of matrices: the structure-aware norm, row by row.
#pragma once

#include <limits>
#include <nullscope/core/view.hpp>

#include "kernels/linalg/row.hpp"

namespace nullscope::kernels {

/// out (batch, rows) = sum_j w_ij |x_ij - y_ij|, with x, y and w (batch, rows, columns); y without data counts as zero.
/// A weight that is negative or NaN makes its row NaN. A group takes `rows_per_group` rows.
template <class T, int W, int Items>
struct weighted_norm {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;
  using numbers = pack<T, W>;

  view<const T, 3> x, y, w;
  view<T, 2> out;
  std::int64_t rows_per_group;
  std::int64_t busy_groups = all_groups;  // the launch sets it, and puts several into a work-group

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    group<Items> members(item, local, busy_groups);
    for (row_range rows(x, members.number(), rows_per_group); !rows.empty(); rows.advance(1)) {
      const row_index i = rows.current();
      const auto x_row = row_of<W>(x, i), y_row = row_of<W>(y, i), w_row = row_of<W>(w, i);
      T result[1];
      reduce_rows<T, W>(
          members, x.extent[2], T(0),
          [&](int, std::int64_t column, auto lanes) {
            const numbers weight = w_row.load(column, lanes), nan(std::numeric_limits<T>::quiet_NaN());
            const numbers other = y.data == nullptr ? numbers(0) : y_row.load(column, lanes);
            return where_less(weight, numbers(0), nan, weight) * abs(x_row.load(column, lanes) - other);
          },
          [](auto element, auto total) { return element + total; }, [](auto a, auto b) { return a + b; }, result);
      if (members.rank() == 0) out(i.batch, i.row) = result[0];
    }
  }
};

}  // namespace nullscope::kernels

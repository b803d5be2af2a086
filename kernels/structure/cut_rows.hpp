/// Removes what is small from the rows of a batch of matrices, and normalises what is left.
#pragma once

#include <cstdint>
#include <nullscope/core/view.hpp>

#include "kernels/linalg/row.hpp"

namespace nullscope::kernels {

/// With m = scale x: y_ij = c_ij / sum_k c_ik, where c is m if m >= threshold, else max(factor m, 0). A row whose sum
/// is 0 becomes `empty`, and emptied (batch, rows) is 1 for it, 0 for the others. x and y are (batch, rows, columns); y
/// may be x. A group takes `rows_per_group` rows.
template <class T, int W, int Items>
struct cut_rows {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;
  using numbers = pack<T, W>;

  view<const T, 3> x;
  view<T, 3> y;
  view<std::int32_t, 2> emptied;
  T scale, threshold, factor, empty;
  std::int64_t rows_per_group;
  std::int64_t busy_groups = all_groups;  // the launch sets it, and puts several into a work-group

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    group<Items> members(item, local, busy_groups);
    const auto cut = [&](numbers element) {
      const numbers mean = element * numbers(scale);
      return where_less(mean, numbers(threshold), max(mean * numbers(factor), numbers(0)), mean);
    };
    for (row_range rows(x, members.number(), rows_per_group); !rows.empty(); rows.advance(1)) {
      const row_index i = rows.current();
      const auto from = row_of<W>(x, i);
      const auto to = row_of<W>(y, i);
      T total[1];
      reduce_rows<T, W>(
          members, x.extent[2], T(0),
          [&](int, std::int64_t column, auto lanes) {
            return cut(from.load(column, lanes));
          },  // beyond the end: cut(0) = 0
          [](auto element, auto sum) { return element + sum; }, [](auto a, auto b) { return a + b; }, total);
      const bool is_empty = total[0] == 0;
      walk<W, 1>(members, x.extent[2], [&](auto, std::int64_t column, auto lanes) {
        to.store(column, is_empty ? numbers(empty) : cut(from.load(column, lanes)) / numbers(total[0]), lanes);
      });
      if (members.rank() == 0 && emptied.data != nullptr) emptied(i.batch, i.row) = is_empty ? 1 : 0;
    }
  }
};

}  // namespace nullscope::kernels

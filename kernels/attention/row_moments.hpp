/// What the correlation of raw and effective attention needs of each row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nullscope/core/view.hpp>
#include <sycl/sycl.hpp>

#include "kernels/linalg/row.hpp"

namespace nullscope::kernels {

/// moments (heads, rows, 3): |a|^2, |a_perp|^2 = |p|^2 and the sum of a_perp = p (U^T 1), for rows a of A and p of
/// P = A U (heads, rows, columns). One group per row.
template <class T, int W, int Items>
struct attention_row_moments {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;
  using numbers = pack<T, W>;

  view<const T, 3> p;
  view<const T, 2> row_squares;  // (heads, rows): |a|^2
  view<const T, 2> u_columns;    // (heads, columns): U^T 1
  view<T, 3> moments;
  std::int64_t rows_per_group;
  std::int64_t busy_groups = all_groups;  // the launch sets it, and puts several into a work-group

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    group<Items> members(item, local, busy_groups);
    for (row_range rows(p, members.number(), rows_per_group); !rows.empty(); rows.advance(1)) {
      const row_index i = rows.current();
      const auto of_row = row_of<W>(p, i);
      const row<const T, W> of_ones{&u_columns(i.batch, 0), 1};
      numbers squares(T(0)), sum(T(0));
      walk<W, 1>(members, p.extent[2], [&](auto, std::int64_t column, auto lanes) {
        const numbers x = of_row.load(column, lanes);
        squares = fma(x, x, squares);
        sum = fma(x, of_ones.load(column, lanes), sum);
      });
      const T all_squares = members.sum(squares), whole_sum = members.sum(sum);
      if (members.rank() != 0) continue;
      moments(i.batch, i.row, 0) = row_squares(i.batch, i.row);
      moments(i.batch, i.row, 1) = all_squares;
      moments(i.batch, i.row, 2) = whole_sum;
    }
  }
};

/// out (batch, columns): the sums of block_sums (batch, blocks, 2, columns) over the blocks, taken in Sum. One
/// work-item per column.
template <class T, class Sum>
struct add_block_sums {
  static constexpr const char* source = __FILE__;

  view<const T, 4> sums;
  view<T, 2> out;

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    const auto i = static_cast<std::int64_t>(item.get_global_linear_id());
    if (i >= out.extent[0] * out.extent[1]) return;
    const std::int64_t batch = i / out.extent[1], column = i % out.extent[1];
    Sum sum = 0;
    for (std::int64_t block = 0; block < sums.extent[1]; ++block)
      sum += static_cast<Sum>(sums(batch, block, 0, column));
    out(batch, column) = static_cast<T>(sum);
  }
};

}  // namespace nullscope::kernels

/// Sums, maxima and norms along the rows of a batch of matrices.
#pragma once

#include <nullscope/view.hpp>

#include "row.hpp"

namespace nullscope::kernels {

/// What a reduction makes of the elements of a row. `norm` is the Euclidean norm, without overflow or underflow on the
/// way.
enum class reduction { sum, maximum, sum_of_squares, norm };

/// out (batch, rows) = the reduction of x (batch, rows, columns) along its columns. A team a row, `rows_per_group` rows
/// one after the other.
template <class T, reduction Kind, int W, int Items>
struct row_reduce {
  static constexpr const char* source = "row_reduce.hpp";
  static constexpr int dimensions = 1;
  static constexpr bool one_work_item = Items == 1;
  using number = number_of<T>;
  using numbers = pack<number, W>;

  view<const T, 3> x;
  view<number, 2> out;
  std::int64_t rows_per_group;

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    team<Items> members(item, local);
    for (row_range rows(x, item.get_group(0), rows_per_group); !rows.empty(); rows.advance()) {
      const number result = one_row(members, row_of<W>(x, rows.current()));
      if (members.rank() == 0) out(rows.current().batch, rows.current().row) = result;
    }
  }

  number one_row(team<Items>& members, row<const T, W> from) const {
    constexpr number infinity = std::numeric_limits<number>::infinity();
    const std::int64_t columns = x.extent[2];
    if constexpr (Kind == reduction::maximum) {
      return reduce_row<number, W>(
          members, columns, -infinity, [&](std::int64_t c, auto lanes) { return from.load(c, lanes, -infinity); },
          [](auto a, auto b) { return max_or_nan(a, b); });
    } else if constexpr (Kind == reduction::sum) {
      return reduce_row<number, W>(
          members, columns, number(0), [&](std::int64_t c, auto lanes) { return from.load(c, lanes); },
          [](auto a, auto b) { return a + b; });
    } else {
      const number squares = sum_of_squares(members, from, 1);
      if constexpr (Kind == reduction::sum_of_squares) return squares;
      // Squares in the range of normal numbers have neither overflowed nor lost much to underflow.
      constexpr number safe = std::numeric_limits<number>::min() / std::numeric_limits<number>::epsilon();
      if (squares >= safe && squares < infinity) return sycl::sqrt(squares);
      const number largest = reduce_row<number, W>(
          members, columns, number(0), [&](std::int64_t c, auto lanes) { return abs(from.load(c, lanes)); },
          [](auto a, auto b) { return max_or_nan(a, b); });
      if (!(largest > 0 && largest < infinity)) return largest;  // 0, infinity, NaN
      return largest * sycl::sqrt(sum_of_squares(members, from, largest));
    }
  }

  /// The sum of (x / scale)^2.
  number sum_of_squares(team<Items>& members, row<const T, W> from, number scale) const {
    constexpr int slots = 4;
    numbers total[slots] = {0, 0, 0, 0};
    walk<W, slots>(members, x.extent[2], [&](int slot, std::int64_t c, auto lanes) {
      const numbers element = scale == 1 ? from.load(c, lanes) : from.load(c, lanes) / numbers(scale);
      total[slot] = fma(element, element, total[slot]);
    });
    return members.sum((total[0] + total[1]) + (total[2] + total[3]));
  }
};

}  // namespace nullscope::kernels

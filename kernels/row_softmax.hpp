/// Softmax along the rows of a batch of matrices.
#pragma once

#include <nullscope/view.hpp>

#include "pack_math.hpp"
#include "row.hpp"

namespace nullscope::kernels {

/// y (batch, rows, columns) = exp(x - m) / sum, m the row's maximum; log_sum_exp (batch, rows) = m + log(sum), if asked
/// for. A team a row, `rows_per_group` rows one after the other. Three passes; the second and the third find the row in
/// cache. A team of one work-item looks for the next row's maximum while it exponentiates: memory works while the lanes
/// compute.
template <class In, class Out, int W, int Items>
struct row_softmax {
  static constexpr const char* source = "row_softmax.hpp";
  static constexpr int dimensions = 1;
  using number = number_of<In>;
  using numbers = pack<number, W>;
  static constexpr number infinity = std::numeric_limits<number>::infinity();
  static constexpr bool looks_ahead = Items == 1;

  view<const In, 3> x;
  view<Out, 3> y;
  view<number, 2> log_sum_exp;  // null: not asked for
  std::int64_t rows_per_group;

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    team<Items> members(item, local);
    row_range rows(x, item.get_group(0), rows_per_group);
    number maximum = rows.empty() ? -infinity : largest_of(members, row_of<W>(x, rows.current()));
    while (!rows.empty()) {
      const row_index i = rows.current();
      rows.advance();
      const auto next = row_of<W>(x, rows.empty() ? i : rows.current());
      maximum = one_row(members, i, maximum, next);
      if constexpr (!looks_ahead) maximum = largest_of(members, next);
    }
  }

  /// NaN is passed over here; it comes back with the exponentials.
  number largest_of(team<Items>& members, row<const In, W> from) const {
    return reduce_row<number, W>(
        members, x.extent[2], -infinity, [&](std::int64_t c, auto lanes) { return from.load(c, lanes, -infinity); },
        [](auto a, auto b) { return max(a, b); });
  }

  /// Returns the maximum of the next row, if it looks ahead.
  number one_row(team<Items>& members, row_index i, number maximum, row<const In, W> next) const {
    const auto from = row_of<W>(x, i);
    const auto to = row_of<W>(y, i);
    const std::int64_t columns = x.extent[2];
    constexpr bool keeps_exponentials = std::is_same_v<Out, number>;  // a bfloat16 would round them once too often

    const number offset = maximum == -infinity ? number(0) : maximum;  // -inf - -inf would be NaN
    const auto exponential = [&](std::int64_t c, auto lanes) {
      return exp_of_nonpositive(from.load(c, lanes, -infinity) - numbers(offset));
    };
    constexpr int slots = 4;
    numbers sum[slots] = {0, 0, 0, 0}, ahead[slots] = {-infinity, -infinity, -infinity, -infinity};
    walk<W, slots>(members, columns, [&](int slot, std::int64_t c, auto lanes) {
      const numbers e = exponential(c, lanes);
      if constexpr (keeps_exponentials) to.store(c, e, lanes);
      sum[slot] += e;
      if constexpr (looks_ahead) ahead[slot] = max(next.load(c, lanes, -infinity), ahead[slot]);
    });
    const number total = members.sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
    const numbers factor(total == 0 ? number(0) : 1 / total);  // a row of -inf gives zeros
    walk<W, slots>(members, columns, [&](int, std::int64_t c, auto lanes) {
      if constexpr (keeps_exponentials) {
        to.store(c, to.load(c, lanes) * factor, lanes);
      } else {
        to.store(c, exponential(c, lanes) * factor, lanes);
      }
    });
    if (log_sum_exp.data != nullptr && members.rank() == 0) log_sum_exp(i.batch, i.row) = offset + sycl::log(total);
    return largest(max(max(ahead[0], ahead[1]), max(ahead[2], ahead[3])));
  }
};

}  // namespace nullscope::kernels

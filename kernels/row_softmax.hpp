/// Softmax along the rows of a batch of matrices.
#pragma once

#include <nullscope/view.hpp>

#include "pack_math.hpp"
#include "row.hpp"

namespace nullscope::kernels {

/// y (batch, rows, columns) = exp(x - m) / sum, m the row's maximum; log_sum_exp (batch, rows) = m + log(sum), if asked
/// for. A team a row, `rows_per_group` rows one after the other. Three passes; the second and the third find the row in
/// cache. A team of one work-item looks for the next row's maximum while it exponentiates: memory works while the lanes
/// compute. If it streams, the exponentials wait in local memory (columns), and y is written once, past the caches.
template <class T, int W, int Items, bool Streams>
struct row_softmax {
  static constexpr const char* source = "row_softmax.hpp";
  static constexpr int dimensions = 1;
  static constexpr bool one_work_item = Items == 1;
  using numbers = pack<T, W>;
  static constexpr T infinity = std::numeric_limits<T>::infinity();
  static constexpr bool looks_ahead = Items == 1;

  view<const T, 3> x;
  view<T, 3> y;
  view<T, 2> log_sum_exp;  // null: not asked for
  std::int64_t rows_per_group;

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    team<Items> members(item, local);
    row_range rows(x, item.get_group(0), rows_per_group);
    T maximum = rows.empty() ? -infinity : largest_of(members, row_of<W>(x, rows.current()));
    while (!rows.empty()) {
      const row_index i = rows.current();
      rows.advance();
      const auto next = row_of<W>(x, rows.empty() ? i : rows.current());
      maximum = one_row(members, local, i, maximum, next);
      if constexpr (!looks_ahead) maximum = largest_of(members, next);
    }
  }

  /// NaN is passed over here; it comes back with the exponentials.
  T largest_of(team<Items>& members, row<const T, W> from) const {
    return reduce_row<T, W>(
        members, x.extent[2], -infinity, [&](std::int64_t c, auto lanes) { return from.load(c, lanes, -infinity); },
        [](auto a, auto b) { return max(a, b); });
  }

  /// Returns the maximum of the next row, if it looks ahead.
  T one_row(team<Items>& members, std::byte* local, row_index i, T maximum, row<const T, W> next) const {
    const auto from = row_of<W>(x, i);
    const auto to = row_of<W, Streams>(y, i);
    const auto kept = Streams ? row<T, W>{reinterpret_cast<T*>(local), 1} : row_of<W>(y, i);
    const std::int64_t columns = x.extent[2];
    const T offset = maximum == -infinity ? T(0) : maximum;  // -inf - -inf would be NaN

    constexpr int slots = 4;
    numbers sum[slots] = {0, 0, 0, 0}, ahead[slots] = {-infinity, -infinity, -infinity, -infinity};
    walk<W, slots>(members, columns, [&](int slot, std::int64_t c, auto lanes) {
      const numbers e = exp_of_nonpositive(from.load(c, lanes, -infinity) - numbers(offset));
      kept.store(c, e, lanes);
      sum[slot] += e;
      if constexpr (looks_ahead) ahead[slot] = max(next.load(c, lanes, -infinity), ahead[slot]);
    });
    const T total = members.sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
    const numbers factor(total == 0 ? T(0) : 1 / total);  // a row of -inf gives zeros
    walk<W, slots>(members, columns,
                   [&](int, std::int64_t c, auto lanes) { to.store(c, kept.load(c, lanes) * factor, lanes); });
    if (log_sum_exp.data != nullptr && members.rank() == 0) log_sum_exp(i.batch, i.row) = offset + sycl::log(total);
    return largest(max(max(ahead[0], ahead[1]), max(ahead[2], ahead[3])));
  }
};

}  // namespace nullscope::kernels

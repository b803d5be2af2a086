/// Layer normalisation along the rows of a batch of matrices.
#pragma once

#include <nullscope/view.hpp>

#include "row.hpp"

namespace nullscope::kernels {

/// y (batch, rows, columns) = (x - mean) * rstd * gamma + beta with rstd = 1 / sqrt(variance + epsilon); gamma and beta
/// (columns); mean and rstd (batch, rows) are kept if asked for. A team a row, `rows_per_group` rows one after the
/// other.
///
/// Three passes, the second and the third in cache. The second sums d = x - (first mean) and d^2: the mean of d
/// corrects the first mean for its rounding, so that a large offset (mean 1e4, deviation 1) costs no accuracy.
template <class T, int W, int Items, bool Streams>
struct row_layer_norm {
  static constexpr const char* source = "row_layer_norm.hpp";
  static constexpr int dimensions = 1;
  static constexpr bool one_work_item = Items == 1;
  using numbers = pack<T, W>;
  static constexpr bool looks_ahead = Items == 1;

  view<const T, 3> x;
  view<T, 3> y;
  view<const T, 1> gamma, beta;  // null: ones, zeros
  view<T, 2> mean, rstd;         // null: not asked for
  T epsilon;
  std::int64_t rows_per_group;

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    team<Items> members(item, local);
    row_range rows(x, item.get_group(0), rows_per_group);
    T sum = rows.empty() ? T(0) : sum_of(members, row_of<W>(x, rows.current()));
    while (!rows.empty()) {
      const row_index i = rows.current();
      rows.advance();
      const auto next = row_of<W>(x, rows.empty() ? i : rows.current());
      sum = one_row(members, i, sum / static_cast<T>(x.extent[2]), next);
      if constexpr (!looks_ahead) sum = sum_of(members, next);
    }
  }

  T sum_of(team<Items>& members, row<const T, W> from) const {
    return reduce_row<T, W>(
        members, x.extent[2], T(0), [&](std::int64_t c, auto lanes) { return from.load(c, lanes); },
        [](auto a, auto b) { return a + b; });
  }

  /// Returns the sum of the next row, if it looks ahead.
  T one_row(team<Items>& members, row_index i, T first_mean, row<const T, W> next) const {
    const auto from = row_of<W>(x, i);
    const auto to = row_of<W, Streams>(y, i);
    const std::int64_t columns = x.extent[2];
    constexpr int slots = 4;

    numbers sum[slots] = {0, 0, 0, 0}, squares[slots] = {0, 0, 0, 0};
    walk<W, slots>(members, columns, [&](int slot, std::int64_t c, auto lanes) {
      const numbers d = from.load(c, lanes, first_mean) - numbers(first_mean);
      sum[slot] += d;
      squares[slot] = fma(d, d, squares[slot]);
    });
    const T correction = members.sum((sum[0] + sum[1]) + (sum[2] + sum[3])) / static_cast<T>(columns);
    const T mean_square = members.sum((squares[0] + squares[1]) + (squares[2] + squares[3])) / static_cast<T>(columns);
    // Below zero by rounding alone. A variance that overflows makes the row NaN instead of zero.
    const T variance = mean_square - correction * correction;
    const T scale = variance < std::numeric_limits<T>::infinity()
                        ? 1 / sycl::sqrt((variance < 0 ? T(0) : variance) + epsilon)
                        : std::numeric_limits<T>::quiet_NaN();

    const numbers shift(-correction * scale);
    const row<const T, W> weights{gamma.data, gamma.stride[0]}, offsets{beta.data, beta.stride[0]};
    numbers ahead[slots] = {0, 0, 0, 0};
    walk<W, slots>(members, columns, [&](int slot, std::int64_t c, auto lanes) {
      numbers z = fma(from.load(c, lanes) - numbers(first_mean), numbers(scale), shift);
      if (gamma.data != nullptr) z *= weights.load(c, lanes);
      if (beta.data != nullptr) z += offsets.load(c, lanes);
      to.store(c, z, lanes);
      if constexpr (looks_ahead) ahead[slot] += next.load(c, lanes);
    });
    if (members.rank() == 0) {
      if (mean.data != nullptr) mean(i.batch, i.row) = first_mean + correction;
      if (rstd.data != nullptr) rstd(i.batch, i.row) = scale;
    }
    return kernels::sum((ahead[0] + ahead[1]) + (ahead[2] + ahead[3]));
  }
};

}  // namespace nullscope::kernels

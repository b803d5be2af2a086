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
template <class In, class Out, int W, int Items>
struct row_layer_norm {
  static constexpr const char* source = "row_layer_norm.hpp";
  static constexpr int dimensions = 1;
  using number = number_of<In>;
  using numbers = pack<number, W>;

  view<const In, 3> x;
  view<Out, 3> y;
  view<const number, 1> gamma, beta;  // null: ones, zeros
  view<number, 2> mean, rstd;         // null: not asked for
  number epsilon;
  std::int64_t rows_per_group;

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    team<Items> members(item, local);
    for_each_row(x, item.get_group(0), rows_per_group,
                 [&](std::int64_t batch, std::int64_t i) { one_row(members, batch, i); });
  }

  void one_row(team<Items>& members, std::int64_t batch, std::int64_t i) const {
    const auto from = row_of<W>(x, batch, i);
    const auto to = row_of<W>(y, batch, i);
    const std::int64_t columns = x.extent[2];
    const auto plus = [](auto a, auto b) { return a + b; };

    const number first_mean = reduce_row<number, W>(
                                  members, columns, number(0),
                                  [&](std::int64_t c, auto lanes) { return from.load(c, lanes, number(0)); }, plus) /
                              static_cast<number>(columns);

    constexpr int slots = 4;
    numbers sum[slots] = {0, 0, 0, 0}, squares[slots] = {0, 0, 0, 0};
    walk<W, slots>(members, columns, [&](int slot, std::int64_t c, auto lanes) {
      const numbers d = from.load(c, lanes, first_mean) - numbers(first_mean);
      sum[slot] += d;
      squares[slot] = fma(d, d, squares[slot]);
    });
    const number correction = members.sum((sum[0] + sum[1]) + (sum[2] + sum[3])) / static_cast<number>(columns);
    const number mean_square =
        members.sum((squares[0] + squares[1]) + (squares[2] + squares[3])) / static_cast<number>(columns);
    // Below zero by rounding alone. A variance that overflows makes the row NaN instead of zero.
    const number variance = mean_square - correction * correction;
    const number scale = variance < std::numeric_limits<number>::infinity()
                             ? 1 / sycl::sqrt((variance < 0 ? number(0) : variance) + epsilon)
                             : std::numeric_limits<number>::quiet_NaN();

    const numbers shift(-correction * scale);
    const row<const number, W> weights{gamma.data, gamma.stride[0]}, offsets{beta.data, beta.stride[0]};
    walk<W, slots>(members, columns, [&](int, std::int64_t c, auto lanes) {
      numbers z = fma(from.load(c, lanes) - numbers(first_mean), numbers(scale), shift);
      if (gamma.data != nullptr) z *= weights.load(c, lanes);
      if (beta.data != nullptr) z += offsets.load(c, lanes);
      to.store(c, z, lanes);
    });
    if (members.rank() == 0) {
      if (mean.data != nullptr) mean(batch, i) = first_mean + correction;
      if (rstd.data != nullptr) rstd(batch, i) = scale;
    }
  }
};

}  // namespace nullscope::kernels

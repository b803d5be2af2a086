/// Softmax along the rows of a batch of matrices.
#pragma once

#include <nullscope/view.hpp>

#include "pack_math.hpp"
#include "row.hpp"

namespace nullscope::kernels {

/// y (batch, rows, columns) = exp(x - m) / sum, m the row's maximum; log_sum_exp (batch, rows) = m + log(sum), if asked
/// for. A team a row, `rows_per_group` rows one after the other. Three passes; the second and the third find the row in
/// cache.
template <class In, class Out, int W, int Items>
struct row_softmax {
  static constexpr const char* source = "row_softmax.hpp";
  static constexpr int dimensions = 1;
  using number = number_of<In>;
  using numbers = pack<number, W>;
  static constexpr number infinity = std::numeric_limits<number>::infinity();

  view<const In, 3> x;
  view<Out, 3> y;
  view<number, 2> log_sum_exp;  // null: not asked for
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
    constexpr bool keeps_exponentials = std::is_same_v<Out, number>;  // a bfloat16 would round them once too often

    // NaN is passed over here; it comes back with the exponentials.
    const number maximum = reduce_row<number, W>(
        members, columns, -infinity, [&](std::int64_t c, auto lanes) { return from.load(c, lanes, -infinity); },
        [](auto a, auto b) { return max(a, b); });
    const number offset = maximum == -infinity ? number(0) : maximum;  // -inf - -inf would be NaN
    const auto exponential = [&](std::int64_t c, auto lanes) {
      return exp_of_nonpositive(from.load(c, lanes, -infinity) - numbers(offset));
    };
    const number total = reduce_row<number, W>(
        members, columns, number(0),
        [&](std::int64_t c, auto lanes) {
          const numbers e = exponential(c, lanes);
          if constexpr (keeps_exponentials) to.store(c, e, lanes);
          return e;
        },
        [](auto a, auto b) { return a + b; });
    const numbers factor(total == 0 ? number(0) : 1 / total);  // a row of -inf gives zeros
    walk<W, 4>(members, columns, [&](int, std::int64_t c, auto lanes) {
      if constexpr (keeps_exponentials) {
        to.store(c, to.load(c, lanes) * factor, lanes);
      } else {
        to.store(c, exponential(c, lanes) * factor, lanes);
      }
    });
    if (log_sum_exp.data != nullptr && members.rank() == 0) log_sum_exp(batch, i) = offset + sycl::log(total);
  }
};

}  // namespace nullscope::kernels

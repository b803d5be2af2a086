/// The bias of the scores on the host: checks, and the sums of its gradient.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "kernels/attention/bias.hpp"
#include "kernels/attention/bias_gradient.hpp"
#include "lib/src/core/checks.hpp"
#include "lib/src/core/fill.hpp"
#include "lib/src/core/ranges.hpp"

namespace nullscope::detail {

/// The view with all strides positive: the same memory, walked in another direction.
template <class T, int Rank>
view<T, Rank> with_positive_strides(view<T, Rank> x) {
  for (std::int64_t& stride : x.stride) stride = std::abs(stride);
  return x;
}

/// bias (..., queries, keys) with any strides, or absent.
template <class T, int Rank>
void check_bias(std::string_view function, std::string_view operand, const view<T, Rank>& bias,
                const std::type_identity_t<std::int64_t> (&expected)[Rank]) {
  if (bias.is_absent()) return;
  check::shape(function, operand, bias, expected);
  check::input(function, operand, with_positive_strides(bias));
}

/// For kernels that multiply scores by `scale` at the end.
template <class T>
kernels::score_bias<T> score_bias_of(const view<const T, 4>& bias, double scale) {
  return {bias, static_cast<T>(1 / scale)};
}

/// Which pairs of query and key share a number. Dimensions of extent 1 share nothing.
template <class T>
kernels::bias_sharing sharing_of(const view<T, 4>& bias) {
  if (bias.extent[2] <= 1) return kernels::bias_sharing::none;
  if (bias.stride[2] == 0) return kernels::bias_sharing::columns;
  const bool is_diagonal = bias.extent[3] > 1 && bias.stride[2] == -bias.stride[3];
  return is_diagonal ? kernels::bias_sharing::diagonals : kernels::bias_sharing::none;
}

/// The numbers of d_bias, each once: (batches, heads, entries), or (batches, heads, queries, keys).
template <class T>
view<T, 4> distinct_numbers(view<T, 4> d_bias) {
  const kernels::bias_sharing sharing = sharing_of(d_bias);
  for (int d : {0, 1}) {
    if (d_bias.stride[d] == 0) d_bias.extent[d] = std::min<std::int64_t>(d_bias.extent[d], 1);
  }
  if (sharing == kernels::bias_sharing::diagonals) d_bias.extent[3] += d_bias.extent[2] - 1;
  if (sharing != kernels::bias_sharing::none) d_bias.extent[2] = 1;
  return with_positive_strides(d_bias);
}

/// d_bias as `bias`; pairs may share a number along batch, heads, diagonals or columns.
template <class T>
void check_bias_gradient(std::string_view function, const view<const T, 4>& bias, const view<T, 4>& d_bias) {
  if (d_bias.is_absent()) return;
  if (bias.is_absent()) check::fail(function, "d_bias", d_bias, "is the gradient of a bias that is not there");
  check::shape(function, "d_bias", d_bias, {bias.extent[0], bias.extent[1], bias.extent[2], bias.extent[3]});
  check::input(function, "d_bias", with_positive_strides(d_bias));
  if (!d_bias.empty()) check::distinct(function, "d_bias", distinct_numbers(d_bias));
}

/// Sums for the kernel that works on `chunks` chunks of the keys, set to zero; none if d_bias is absent.
template <class T>
kernels::bias_gradient<T> take_bias_sums(operation& op, const view<T, 4>& d_bias, std::int64_t chunks) {
  if (d_bias.empty()) return {};
  const std::int64_t queries = d_bias.extent[2], keys = d_bias.extent[3];
  kernels::bias_gradient<T> result{nullptr, sharing_of(d_bias), chunks, keys, queries, keys};
  if (result.sharing == kernels::bias_sharing::none) {
    result.tables = 1;
    result.entries = queries * keys;
  } else if (result.sharing == kernels::bias_sharing::diagonals) {
    result.entries = queries + keys - 1;
  }
  const auto sums = op.take_array<T>(d_bias.extent[0], d_bias.extent[1], result.tables, result.entries);
  result.sums = sums.data;
  fill_zero(op, sums);
  return result;
}

template <class T>
void write_bias_gradient(operation& op, const kernels::bias_gradient<T>& sums, const view<T, 4>& d_bias) {
  if (!sums.is_wanted()) return;
  constexpr std::int64_t items = 32;
  const auto own = [&](int d) { return d_bias.stride[d] == 0 ? std::int64_t{1} : d_bias.extent[d]; };
  const kernels::add_bias_sums<T> kernel{sums, d_bias, own(0), own(1)};
  op.launch(groups_of(ceil_div(kernel.numbers(), items), items), 0, kernel);
}

}  // namespace nullscope::detail

#include <algorithm>
#include <nullscope/linalg/gemm.hpp>
#include <nullscope/linalg/rows.hpp>

#include "lib/src/attribution/identity.hpp"
#include "lib/src/attribution/tangent_layers.hpp"

namespace nullscope::detail {

template <class T>
void tangent_layers<T>::merge(const std::vector<layer_jacobians<T>>& jacobians) {
  jacobians_ = jacobians;
  for (std::int64_t layer = 0; layer < config_.layers; ++layer) {
    const layer_jacobians<T>& to = jacobians_[static_cast<std::size_t>(layer)];
    if (!to.is_absent()) form_jacobians(layer, to);
  }
}

/// Fills `to` with the transposes of the Jacobians from attention_sum to the output of the layer. Rounded ones are
/// formed in T too.
///
///   post-LN: J = N2 (I + F) N1      pre-LN: J = I + F N2       F = down diag(slope) up
template <class T>
void tangent_layers<T>::form_jacobians(std::int64_t layer, const layer_jacobians<T>& to) const {
  constexpr std::int64_t tokens_at_once = 8;
  const layer_weights<const T>& weights = planned(layer).weights;
  const std::int64_t d = config_.width, hidden = config_.feed_forward, rows = batch_ * tokens_;
  const bool is_pre = config_.order == norm_order::pre;
  operation op(ctx_, "merged_jacobian");
  const view<T, 2> slope = derivatives(op, layer);
  const view<T, 2> identity = take_identity<T>(op, d);
  const std::int64_t most = std::min(tokens_at_once, rows);
  const view<T, 3> scaled = op.take_array<T>(most, hidden, d), product = op.take_array<T>(most, d, d);
  const view<T, 3> unrounded = to.values.is_absent() ? op.take_array<T>(most, d, d) : view<T, 3>{};
  for (std::int64_t row = 0; row < rows; row += most) {
    const std::int64_t count = std::min(most, rows - row);
    const auto at = [&](const norm_at_tokens<T>& norm) { return norm.at(row, 1, count); };
    const view<T, 3> up = slice(scaled, 0, 0, count), j = slice(product, 0, 0, count);
    const view<T, 3> out = to.values.is_absent() ? slice(unrounded, 0, 0, count) : slice(to.values, 0, row, count);
    const view<const T, 3> repeated{identity.data, {count, d, d}, {0, d, 1}};
    multiply(ctx_,
             {view<const T, 3>{weights.up.data, {count, hidden, d}, {0, weights.up.stride[0], 1}},
              view<const T, 3>{slope.data + row * hidden, {count, hidden, d}, {hidden, 1, 0}}},
             up);
    if (!is_pre) copy(ctx_, repeated, j);
    gemm(ctx_, {weights.down, up}, j, {.beta = is_pre ? 0.0 : 1.0});
    norm_transposed_product<T>(ctx_, at(is_pre ? second_norm(layer) : first_norm(layer)), j, j);
    transpose(ctx_, view<const T, 3>(j), out);
    if (is_pre) {
      axpby(ctx_, {out, repeated}, out);
    } else {
      norm_product<T>(ctx_, at(second_norm(layer)), out, out);
    }
    if constexpr (std::is_same_v<T, float>) {
      if (to.values.is_absent()) copy(ctx_, out, slice(to.rounded, 0, row, count));
    }
  }
  op.submit();
}

template void tangent_layers<float>::merge(const std::vector<layer_jacobians<float>>&);
template void tangent_layers<double>::merge(const std::vector<layer_jacobians<double>>&);

}  // namespace nullscope::detail

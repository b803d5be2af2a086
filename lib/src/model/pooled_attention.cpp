#include "lib/src/model/pooled_attention.hpp"

#include <cmath>
#include <nullscope/linalg/gemm.hpp>
#include <nullscope/linalg/rows.hpp>
#include <nullscope/model/layers.hpp>

#include "kernels/model/mask_keys.hpp"
#include "lib/src/linalg/row_launch.hpp"

namespace nullscope::detail {
namespace {

/// (batch, heads, n) as one matrix (batch, n) per head.
template <class T>
view<T, 3> by_head(const view<T, 3>& x) {
  return {x.data, {x.extent[1], x.extent[0], x.extent[2]}, {x.stride[1], x.stride[0], x.stride[2]}};
}

/// The parts of a layer that the steps below multiply.
template <class T>
struct pooled_parts {
  pooled_parts(const transformer_config& c, const layer_shape& shape, const head_arrays<T>& heads)
      : q(contiguous(heads.q.data, shape.batch, c.heads, c.key_size)),
        attended(contiguous(heads.attended.data, shape.batch, c.heads, c.value_size)),
        d_context(slice(heads.reach, 1, 0, c.heads)),
        reach(slice(heads.reach, 1, c.heads, c.heads)),
        weights(slice(heads.weights, 1, 0, c.heads)),
        d_scores(slice(heads.weights, 1, c.heads, c.heads)),
        scale(1 / std::sqrt(static_cast<double>(c.key_size))) {}

  /// The rows of keys, or of values, of the weights or of their gradient, as (heads, size, d).
  template <class U>
  static view<U, 3> keys_of(const view<U, 2>& all, const transformer_config& c) {
    return contiguous(all.data + c.query_width() * c.width, c.heads, c.key_size, c.width);
  }
  template <class U>
  static view<U, 3> values_of(const view<U, 2>& all, const transformer_config& c) {
    return contiguous(all.data + 2 * c.query_width() * c.width, c.heads, c.value_size, c.width);
  }

  view<T, 3> q, attended;        // (batch, heads, d_k or d_v)
  view<T, 3> d_context, reach;   // (batch, heads, d)
  view<T, 3> weights, d_scores;  // (batch, heads, S)
  double scale;
};

template <class T>
void hide_padding(context& ctx, const view<T, 3>& scores, const view<const std::int64_t, 1>& lengths) {
  operation op(ctx, "pooled_attention");
  launch_rows<T>(op, {scores.extent[0] * scores.extent[1], scores.extent[2], false}, [&]<int, int Items>() {
    return kernels::mask_keys<T, Items>{lengths.data, scores, 0};
  });
  op.submit();
}

}  // namespace

template <class T>
void pooled_attention(const pass<T>& p, const planned_layer<T>& layer) {
  const auto& [number, shape, weights, arrays] = layer;
  const transformer_config& c = p.config;
  const pooled_parts<T> parts(c, shape, arrays);
  const view<const T, 3> x = contiguous(arrays.seen.data, shape.batch, shape.tokens, c.width);
  const std::int64_t q_width = c.query_width(), v_width = c.value_width();
  const view<const T, 1>& bias = weights.query_key_value_bias;
  linear(p.ctx,
         {arrays.query_input, slice(weights.query_key_value, 0, 0, q_width),
          bias.is_absent() ? bias : slice(bias, 0, 0, q_width)},
         {contiguous(arrays.q.data, shape.batch, q_width)});
  // q (h, B, dk) W_k (h, dk, d) -> reach (B, h, d); scores (B, h, S); context (B, h, d); attended (B, h, dv)
  gemm(p.ctx, {by_head(parts.q), pooled_parts<T>::keys_of(weights.query_key_value, c)}, by_head(parts.reach),
       {.alpha = parts.scale});
  gemm(p.ctx, {parts.reach, transposed(x)}, parts.weights);
  hide_padding(p.ctx, parts.weights, p.lengths);
  softmax(p.ctx, parts.weights, {parts.weights});
  gemm(p.ctx, {parts.weights, x}, arrays.context);
  gemm(p.ctx, {by_head(arrays.context), transposed(pooled_parts<T>::values_of(weights.query_key_value, c))},
       by_head(parts.attended));
  if (bias.is_absent()) return;
  const view<T, 3> rows = contiguous(arrays.attended.data, 1, shape.batch, v_width);
  const view<const T, 3> repeated{bias.data + 2 * q_width, {1, shape.batch, v_width}, {0, 0, 1}};
  axpby(p.ctx, {rows, repeated}, rows);
}

template <class T>
void pooled_attention_backward(operation& op, const pass<T>& p, const planned_layer<T>& layer,
                               const layer_weights<T>& gradients, const view<const T, 4>& d_attended,
                               const view<T, 2>& d_seen, const view<T, 2>& d_q) {
  const auto& [number, shape, weights, arrays] = layer;
  const transformer_config& c = p.config;
  const pooled_parts<T> parts(c, shape, arrays);
  const view<const T, 3> x = contiguous(arrays.seen.data, shape.batch, shape.tokens, c.width);
  const auto keys = pooled_parts<T>::keys_of(weights.query_key_value, c);
  const auto values = pooled_parts<T>::values_of(weights.query_key_value, c);
  const bool has_gradients = !gradients.query_key_value.is_absent();
  view<const T, 3> d_heads = select(d_attended, 2, 0);  // (B, h, dv)
  if (!gradients.query_key_value_bias.is_absent()) {
    if (c.merge == head_merge::added) {  // column sums need every head in memory
      const view<T, 3> wide = op.take_array<T>(shape.batch, c.heads, c.value_size);
      copy(p.ctx, d_heads, wide);
      d_heads = wide;
    }
    linear_backward(p.ctx,
                    {arrays.query_input, slice(weights.query_key_value, 0, 2 * c.query_width(), c.value_width()),
                     contiguous(d_heads.data, shape.batch, c.value_width())},
                    {{}, {}, slice(gradients.query_key_value_bias, 0, 2 * c.query_width(), c.value_width())});
  }
  gemm(p.ctx, {by_head(d_heads), values}, by_head(parts.d_context));
  gemm(p.ctx, {parts.d_context, transposed(x)}, parts.d_scores);
  softmax_backward(p.ctx, {parts.weights, parts.d_scores}, parts.d_scores);
  const view<T, 3> d_reach = op.take_array<T>(shape.batch, c.heads, c.width);
  gemm(p.ctx, {parts.d_scores, x}, d_reach);
  // Both ways to the tokens at once: weights^T d_context + d_scores^T reach.
  gemm(p.ctx, {transposed(arrays.weights), arrays.reach}, contiguous(d_seen.data, shape.batch, shape.tokens, c.width));
  gemm(p.ctx, {by_head(d_reach), transposed(keys)}, by_head(contiguous(d_q.data, shape.batch, c.heads, c.key_size)),
       {.alpha = parts.scale});
  if (!has_gradients) return;
  gemm(p.ctx, {transposed(by_head(d_heads)), by_head(arrays.context)},
       pooled_parts<T>::values_of(gradients.query_key_value, c), {.beta = 1});
  gemm(p.ctx, {transposed(by_head(parts.q)), by_head(d_reach)}, pooled_parts<T>::keys_of(gradients.query_key_value, c),
       {.alpha = parts.scale, .beta = 1});
}

template void pooled_attention(const pass<float>&, const planned_layer<float>&);
template void pooled_attention(const pass<double>&, const planned_layer<double>&);
template void pooled_attention_backward(operation&, const pass<float>&, const planned_layer<float>&,
                                        const layer_weights<float>&, const view<const float, 4>&, const view<float, 2>&,
                                        const view<float, 2>&);
template void pooled_attention_backward(operation&, const pass<double>&, const planned_layer<double>&,
                                        const layer_weights<double>&, const view<const double, 4>&,
                                        const view<double, 2>&, const view<double, 2>&);

}  // namespace nullscope::detail

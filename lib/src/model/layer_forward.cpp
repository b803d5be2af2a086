#include "lib/src/model/layer_forward.hpp"

#include <nullscope/model/layers.hpp>

#include "lib/src/model/feed_forward_block.hpp"
#include "lib/src/model/pool.hpp"

namespace nullscope::detail {
namespace {

/// A narrow layer copies the rows of its queries.
template <class T>
void pool_queries(const pass<T>& p, const planned_layer<T>& layer) {
  const layer_shape& shape = layer.shape;
  if (!shape.is_narrow()) return;
  const auto pool = [&](const view<const T, 2>& x, const view<T, 2>& out) {
    const view<const T, 3> by_sequence = contiguous(x.data, shape.batch, shape.tokens, p.config.width);
    pool_tokens<T>(p.ctx, p.config.pool, by_sequence, p.lengths, out);
  };
  pool(layer.arrays.input, layer.arrays.residual);
  if (p.config.order == norm_order::pre) pool(layer.arrays.seen, layer.arrays.query_input);
}

}  // namespace

template <class T>
void post_norm_layer(const pass<T>& p, const planned_layer<T>& layer, bool is_prepared, const view<T, 2>& output,
                     const prepared_bias<T>& next) {
  const auto& [number, shape, weights, arrays] = layer;
  const norm_weights<const T>&first = weights.attention_norm, &second = weights.feed_forward_norm;
  pool_queries(p, layer);
  attention_block(p, layer, is_prepared);
  layer_norm_residual(
      p.ctx, {arrays.attention_sum, arrays.residual, first.gamma, first.beta, p.bias_of_norm(weights.output_bias)},
      {arrays.middle, arrays.attention_sum, arrays.attention_norm.mean, arrays.attention_norm.inverse_deviation},
      {p.config.norm_epsilon});
  feed_forward_block(p, layer);
  layer_norm_residual(
      p.ctx,
      {arrays.feed_forward_sum, arrays.middle, second.gamma, second.beta, p.bias_of_norm(weights.down_bias), next.bias},
      {output, arrays.feed_forward_sum, arrays.feed_forward_norm.mean, arrays.feed_forward_norm.inverse_deviation,
       next.rows},
      {p.config.norm_epsilon});
}

template <class T>
pending_sum<T> pre_norm_layer(const pass<T>& p, const planned_layer<T>& layer, const pending_sum<T>& entering) {
  const auto& [number, shape, weights, arrays] = layer;
  const norm_weights<const T>&first = weights.attention_norm, &second = weights.feed_forward_norm;
  const prepared_bias<T> own = prepared_bias_of(p.config, layer);
  const view<T, 2> sum = entering.x.data == arrays.input.data ? view<T, 2>{} : arrays.input;
  layer_norm_residual(p.ctx, {entering.x, entering.residual, first.gamma, first.beta, entering.bias, own.bias},
                      {arrays.seen, sum, arrays.attention_norm.mean, arrays.attention_norm.inverse_deviation, own.rows},
                      {p.config.norm_epsilon});
  pool_queries(p, layer);
  attention_block(p, layer, !own.is_absent());
  layer_norm_residual(
      p.ctx, {arrays.attention_sum, arrays.residual, second.gamma, second.beta, p.bias_of_norm(weights.output_bias)},
      {arrays.middle, arrays.attention_sum, arrays.feed_forward_norm.mean, arrays.feed_forward_norm.inverse_deviation},
      {p.config.norm_epsilon});
  feed_forward_block(p, layer);
  return {arrays.feed_forward_sum, arrays.attention_sum, p.bias_of_norm(weights.down_bias)};
}

template void post_norm_layer(const pass<float>&, const planned_layer<float>&, bool, const view<float, 2>&,
                              const prepared_bias<float>&);
template void post_norm_layer(const pass<double>&, const planned_layer<double>&, bool, const view<double, 2>&,
                              const prepared_bias<double>&);
template pending_sum<float> pre_norm_layer(const pass<float>&, const planned_layer<float>&, const pending_sum<float>&);
template pending_sum<double> pre_norm_layer(const pass<double>&, const planned_layer<double>&,
                                            const pending_sum<double>&);

}  // namespace nullscope::detail

#include "lib/src/model/layer_forward.hpp"

#include "lib/src/model/attention_block.hpp"
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
  pool_queries(p, layer);
  attention_block(p, layer, is_prepared);
  norm_block<T>(p, weights.attention_norm, {arrays.attention_sum, arrays.residual, p.bias_of_norm(weights.output_bias)},
                {arrays.middle, arrays.attention_sum, arrays.attention_norm});
  feed_forward_block(p, layer);
  norm_block<T>(p, weights.feed_forward_norm,
                {arrays.feed_forward_sum, arrays.middle, p.bias_of_norm(weights.down_bias)},
                {output, arrays.feed_forward_sum, arrays.feed_forward_norm, next});
}

template <class T>
pending_sum<T> pre_norm_layer(const pass<T>& p, const planned_layer<T>& layer, const pending_sum<T>& entering) {
  const auto& [number, shape, weights, arrays] = layer;
  const prepared_bias<T> own = prepared_bias_of(p.config, layer);
  const view<T, 2> input = entering.x.data == arrays.input.data ? view<T, 2>{} : arrays.input;
  norm_block<T>(p, weights.attention_norm, entering, {arrays.seen, input, arrays.attention_norm, own});
  pool_queries(p, layer);
  attention_block(p, layer, !own.is_absent());
  norm_block<T>(p, weights.feed_forward_norm,
                {arrays.attention_sum, arrays.residual, p.bias_of_norm(weights.output_bias)},
                {arrays.middle, arrays.attention_sum, arrays.feed_forward_norm});
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

#include "lib/src/model/feed_forward_block.hpp"

#include <nullscope/model/layers.hpp>

namespace nullscope::detail {

template <class T>
void feed_forward_block(const pass<T>& p, const planned_layer<T>& layer) {
  const auto& [number, shape, weights, arrays] = layer;
  product<T>(p, {arrays.middle, weights.up, weights.up_bias}, {arrays.activated, arrays.pre_activation},
             {p.config.function});
  if (arrays.feed_forward_sum.is_absent()) return;
  product<T>(p, {arrays.activated, weights.down, p.bias_of_product(weights.down_bias)}, {arrays.feed_forward_sum});
  drop(p, arrays.feed_forward_sum, number, dropout_place::feed_forward);
}

template <class T>
void feed_forward_block_backward(const pass<T>& p, const planned_layer<T>& layer, const layer_weights<T>& gradients,
                                 const view<T, 2>& d_sum, const feed_forward_block_gradients<T>& to) {
  const auto& [number, shape, weights, arrays] = layer;
  operation op(p.ctx, "feed_forward_block_backward");
  const view<T, 2> d_out = undrop(op, p, d_sum, number, dropout_place::feed_forward);
  const view<T, 2> d_activated = op.take_array<T>(shape.query_rows(), p.config.feed_forward);
  linear_backward(p.ctx, {arrays.activated, weights.down, d_out}, {d_activated, gradients.down, to.d_down_bias});
  activation_backward(p.ctx, {arrays.pre_activation, d_activated}, {d_activated, gradients.up_bias},
                      {p.config.function});
  linear_backward(p.ctx, {arrays.middle, weights.up, d_activated}, {to.d_middle, gradients.up, {}},
                  {.accumulate = true, .accumulate_x = to.adds});
  op.submit();
}

template void feed_forward_block(const pass<float>&, const planned_layer<float>&);
template void feed_forward_block(const pass<double>&, const planned_layer<double>&);
template void feed_forward_block_backward(const pass<float>&, const planned_layer<float>&, const layer_weights<float>&,
                                          const view<float, 2>&, const feed_forward_block_gradients<float>&);
template void feed_forward_block_backward(const pass<double>&, const planned_layer<double>&,
                                          const layer_weights<double>&, const view<double, 2>&,
                                          const feed_forward_block_gradients<double>&);

}  // namespace nullscope::detail

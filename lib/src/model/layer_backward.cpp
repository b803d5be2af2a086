#include "lib/src/model/layer_backward.hpp"

#include <nullscope/linalg/rows.hpp>

#include "lib/src/model/attention_block.hpp"
#include "lib/src/model/feed_forward_block.hpp"
#include "lib/src/model/norm_block.hpp"
#include "lib/src/model/pool.hpp"

namespace nullscope::detail {
namespace {

/// d_x (batch, S, d) = the gradient of picking the rows d_rows (query_rows, d) of a narrow layer, or added to d_x.
template <class T>
void unpool_queries(const pass<T>& p, const layer_shape& shape, const view<T, 2>& d_rows, const view<T, 2>& d_x,
                    bool adds) {
  unpool_tokens<T>(p.ctx, p.config.pool, d_rows, p.lengths,
                   contiguous(d_x.data, shape.batch, shape.tokens, p.config.width), adds);
}

// Without dropout the gradient of a sum is that of the bias inside it, whose column sums the norm adds up on the way.

template <class T>
void post_norm_backward(const pass<T>& p, const planned_layer<T>& layer, const layer_weights<T>& gradients,
                        const view<T, 2>& d_output, const view<T, 2>& d_input) {
  const auto& [number, shape, weights, arrays] = layer;
  operation op(p.ctx, "layer_backward");
  const view<T, 2> d_middle = op.take_array<T>(shape.query_rows(), p.config.width);  // also of feed_forward_sum
  norm_block_backward<T>(p, weights.feed_forward_norm, gradients.feed_forward_norm, arrays.feed_forward_sum,
                         arrays.feed_forward_norm, d_output, {d_middle, {}, p.bias_of_norm(gradients.down_bias)});
  feed_forward_block_backward<T>(p, layer, gradients, d_middle,
                                 {d_middle, true, p.bias_of_product(gradients.down_bias)});
  // The gradient of attention_sum reaches the residual, whose rows are the input's in a whole layer, and attention.
  const view<T, 2> d_sum = shape.is_narrow() ? op.take_array<T>(shape.query_rows(), p.config.width) : d_input;
  norm_block_backward<T>(p, weights.attention_norm, gradients.attention_norm, arrays.attention_sum,
                         arrays.attention_norm, d_middle, {d_sum, {}, p.bias_of_norm(gradients.output_bias)});
  if (!shape.is_narrow()) {
    attention_block_backward<T>(p, layer, gradients, d_sum, {d_input, true});
  } else {  // the residual and the queries are rows of the input: their gradients go back together
    const view<T, 2> d_rows = op.take_array<T>(shape.query_rows(), p.config.width);
    copy(p.ctx, d_sum, d_rows);
    attention_block_backward<T>(p, layer, gradients, d_sum, {d_input, false, d_rows});
    unpool_queries(p, shape, d_rows, d_input, true);
  }
  op.submit();
}

template <class T>
void pre_norm_backward(const pass<T>& p, const planned_layer<T>& layer, const layer_weights<T>& gradients,
                       const view<T, 2>& d_output, const view<T, 2>& d_input) {
  const auto& [number, shape, weights, arrays] = layer;
  operation op(p.ctx, "layer_backward");
  const auto matrix = [&](std::int64_t rows) { return op.take_array<T>(rows, p.config.width); };
  const view<T, 2> d_sum = matrix(shape.query_rows()), d_middle = matrix(shape.query_rows());
  feed_forward_block_backward<T>(p, layer, gradients, d_output, {d_middle, false, gradients.down_bias});
  norm_block_backward<T>(p, weights.feed_forward_norm, gradients.feed_forward_norm, arrays.attention_sum,
                         arrays.feed_forward_norm, d_middle, {d_sum, d_output, p.bias_of_norm(gradients.output_bias)});
  const view<T, 2> d_seen = matrix(shape.rows());
  view<T, 2> d_residual = d_sum;
  if (!shape.is_narrow()) {
    attention_block_backward<T>(p, layer, gradients, d_sum, {d_seen});
  } else {
    const view<T, 2> d_rows = matrix(shape.query_rows());
    d_residual = matrix(shape.rows());
    attention_block_backward<T>(p, layer, gradients, d_sum, {d_seen, false, d_rows});
    unpool_queries(p, shape, d_rows, d_seen, true);
    unpool_queries(p, shape, d_sum, d_residual, false);
  }
  norm_block_backward<T>(p, weights.attention_norm, gradients.attention_norm, arrays.input, arrays.attention_norm,
                         d_seen, {d_input, d_residual});
  op.submit();
}

}  // namespace

template <class T>
void layer_backward(const pass<T>& p, const planned_layer<T>& layer, const layer_weights<T>& gradients,
                    const view<T, 2>& d_output, const view<T, 2>& d_input) {
  if (p.config.order == norm_order::pre) {
    pre_norm_backward(p, layer, gradients, d_output, d_input);
  } else {
    post_norm_backward(p, layer, gradients, d_output, d_input);
  }
}

template void layer_backward(const pass<float>&, const planned_layer<float>&, const layer_weights<float>&,
                             const view<float, 2>&, const view<float, 2>&);
template void layer_backward(const pass<double>&, const planned_layer<double>&, const layer_weights<double>&,
                             const view<double, 2>&, const view<double, 2>&);

}  // namespace nullscope::detail

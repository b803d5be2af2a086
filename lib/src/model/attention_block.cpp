#include "lib/src/model/attention_block.hpp"

#include <nullscope/attention/attention.hpp>
#include <nullscope/linalg/rows.hpp>
#include <nullscope/model/layers.hpp>

#include "lib/src/core/fill.hpp"
#include "lib/src/model/pooled_attention.hpp"

namespace nullscope::detail {
namespace {

std::int64_t projected_width(const transformer_config& config) {
  return 2 * config.query_width() + config.value_width();
}

/// (rows, width) of the array that q, k and v of a layer are parts of; in a narrow layer that of k and v.
template <class T>
view<T, 2> projected(const head_arrays<T>& heads, const layer_shape& shape, std::int64_t width) {
  return contiguous(shape.is_narrow() ? heads.k.data : heads.q.data, shape.rows(), width);
}

/// Rows [first, first + count) of an array that may be absent.
template <class X>
X rows_of(const X& x, std::int64_t first, std::int64_t count) {
  return x.is_absent() ? x : slice(x, 0, first, count);
}

/// q, k, v = the three parts of x w^T + b; in a narrow layer q of the pooled token alone.
template <class T>
void project(const pass<T>& p, const planned_layer<T>& layer, bool is_prepared) {
  const auto& [number, shape, weights, arrays] = layer;
  const std::int64_t q_width = p.config.query_width(), width = projected_width(p.config);
  const view<const T, 1>& bias = weights.query_key_value_bias;
  if (!shape.is_narrow()) {
    product<T>(p, {arrays.seen, weights.query_key_value, is_prepared ? view<const T, 1>{} : bias},
               {projected(arrays, shape, width)}, {.accumulate = is_prepared});
    return;
  }
  product<T>(p, {arrays.query_input, slice(weights.query_key_value, 0, 0, q_width), rows_of(bias, 0, q_width)},
             {contiguous(arrays.q.data, shape.query_rows(), q_width)});
  const std::int64_t rest = width - q_width;
  product<T>(p, {arrays.seen, slice(weights.query_key_value, 0, q_width, rest), rows_of(bias, q_width, rest)},
             {projected(arrays, shape, rest)});
}

/// What the heads attend to, with q, k and v rounded to bfloat16 if the pass says so.
template <class T>
void attend(const pass<T>& p, const planned_layer<T>& layer) {
  const layer_shape& shape = layer.shape;
  const layer_arrays<T>& arrays = layer.arrays;
  attention_options options;
  options.causal = p.config.causal && !shape.is_narrow();  // the pooled token is the last one, which sees all
  options.lengths = p.lengths;
  const view<const T, 4> bias = score_bias(p.bias, shape);
  const attention_results<T> results{.out = arrays.attended, .log_sum_exp = arrays.log_sum_exp};
  if constexpr (std::is_same_v<T, float>) {
    if (p.rounded != nullptr && !shape.is_narrow()) {
      operation op(p.ctx, "forward");
      const view<T, 2> all = projected(arrays, shape, projected_width(p.config));
      const auto rounded_all = op.take_array<bfloat16>(all.extent[0], all.extent[1]);
      copy(p.ctx, all, rounded_all);
      const auto part = [&](const view<T, 4>& x) { return rounded_part(x, all.data, rounded_all.data); };
      const attention_operands<bfloat16> heads{part(arrays.q), part(arrays.k), part(arrays.v), bias};
      attention(p.ctx, heads, results, options);
      op.submit();
      return;
    }
  }
  attention(p.ctx, {arrays.q, arrays.k, arrays.v, bias}, results, options);
}

/// The sum of the heads' outputs.
template <class T>
void add_heads(const pass<T>& p, const planned_layer<T>& layer) {
  const std::int64_t size = p.config.value_size, heads = p.config.heads;
  const view<const T, 3> attended{
      layer.arrays.attended.data, {layer.shape.query_rows(), size, heads}, {heads * size, 1, size}};
  row_reduce(p.ctx, attended, layer.arrays.merged, row_reduction::sum);
}

/// d_q (query_rows, h d_k) of a narrow layer, back to its queries' input.
template <class T>
void query_backward(const pass<T>& p, const planned_layer<T>& layer, const layer_weights<T>& gradients,
                    const view<const T, 2>& d_q, const view<T, 2>& d_query_input) {
  const std::int64_t q_width = p.config.query_width();
  linear_backward(p.ctx, {layer.arrays.query_input, slice(layer.weights.query_key_value, 0, 0, q_width), d_q},
                  {d_query_input, rows_of(gradients.query_key_value, 0, q_width),
                   rows_of(gradients.query_key_value_bias, 0, q_width)},
                  {.accumulate = true, .accumulate_x = p.config.order == norm_order::post});
}

/// d of q, k and v from d_attended, and the gradient of the bias of the scores.
template <class T>
void heads_backward(operation& op, const pass<T>& p, const planned_layer<T>& layer, const view<T, 4>& d_attended,
                    const head_arrays<T>& d) {
  const layer_shape& shape = layer.shape;
  const layer_arrays<T>& arrays = layer.arrays;
  attention_options options;
  options.causal = p.config.causal && !shape.is_narrow();
  options.lengths = p.lengths;
  view<T, 2> d_bias;
  if (!p.d_relative.is_absent()) {
    d_bias = op.take_array<T>(p.config.heads, 2 * shape.tokens - 1);
    if (shape.is_narrow()) fill_zero(op, d_bias);  // it leaves distances out
  }
  attention_backward(
      p.ctx, {arrays.q, arrays.k, arrays.v, arrays.attended, arrays.log_sum_exp, d_attended, score_bias(p.bias, shape)},
      {d.q, d.k, d.v, score_bias(d_bias, shape)}, options);
  if (!d_bias.is_absent()) relative_bias_backward(p.ctx, d_bias, p.d_relative, {p.config.relative_distance});
}

/// From d of q, k and v to what they were made from.
template <class T>
void projection_backward(const pass<T>& p, const planned_layer<T>& layer, const layer_weights<T>& gradients,
                         const head_arrays<T>& d, const attention_block_gradients<T>& to) {
  const auto& [number, shape, weights, arrays] = layer;
  const std::int64_t q_width = p.config.query_width(), width = projected_width(p.config), rest = width - q_width;
  const linear_backward_options add{.accumulate = true, .accumulate_x = to.adds};
  if (!shape.is_narrow()) {
    linear_backward(p.ctx, {arrays.seen, weights.query_key_value, projected(d, shape, width)},
                    {to.d_seen, gradients.query_key_value, gradients.query_key_value_bias}, add);
    return;
  }
  linear_backward(p.ctx, {arrays.seen, slice(weights.query_key_value, 0, q_width, rest), projected(d, shape, rest)},
                  {to.d_seen, rows_of(gradients.query_key_value, q_width, rest),
                   rows_of(gradients.query_key_value_bias, q_width, rest)},
                  add);
  query_backward<T>(p, layer, gradients, contiguous(d.q.data, shape.query_rows(), q_width), to.d_query_input);
}

}  // namespace

template <class T>
prepared_bias<T> prepared_bias_of(const transformer_config& config, const planned_layer<T>& layer) {
  if (layer.shape.is_narrow() || layer.weights.query_key_value_bias.is_absent()) return {};
  return {layer.weights.query_key_value_bias, projected(layer.arrays, layer.shape, projected_width(config))};
}

template <class T>
void attention_block(const pass<T>& p, const planned_layer<T>& layer, bool is_prepared) {
  const layer_arrays<T>& arrays = layer.arrays;
  if (attends_to_tokens(p.config, layer.shape)) {
    pooled_attention(p, layer);
  } else {
    project(p, layer, is_prepared);
    attend(p, layer);
  }
  if (p.config.merge == head_merge::added) add_heads(p, layer);
  product<T>(p, {arrays.merged, layer.weights.output, p.bias_of_product(layer.weights.output_bias)},
             {arrays.attention_sum});
  drop(p, arrays.attention_sum, layer.number, dropout_place::attention);
}

template <class T>
void attention_block_backward(const pass<T>& p, const planned_layer<T>& layer, const layer_weights<T>& gradients,
                              const view<T, 2>& d_sum, const attention_block_gradients<T>& to) {
  const auto& [number, shape, weights, arrays] = layer;
  const transformer_config& config = p.config;
  operation op(p.ctx, "attention_block_backward");
  const view<T, 2> d_out = undrop(op, p, d_sum, number, dropout_place::attention);
  const view<T, 2> d_merged = op.take_array<T>(shape.query_rows(), config.merged_width());
  linear_backward(p.ctx, {arrays.merged, weights.output, d_out},
                  {d_merged, gradients.output, p.bias_of_product(gradients.output_bias)});
  view<T, 4> d_attended =
      heads_of(d_merged.data, shape.batch, shape.queries, config.heads, config.value_size, config.merged_width());
  if (config.merge == head_merge::added) d_attended.stride[1] = 0;  // every head gets the gradient of the sum
  if (attends_to_tokens(config, shape)) {
    const view<T, 2> d_q = op.take_array<T>(shape.query_rows(), config.query_width());
    pooled_attention_backward<T>(op, p, layer, gradients, d_attended, to.d_seen, d_q);
    query_backward<T>(p, layer, gradients, d_q, to.d_query_input);
  } else {
    head_arrays<T> d;
    take_query_key_value(config, shape, d, [&](std::int64_t count) { return op.take<T>(count); });
    heads_backward(op, p, layer, d_attended, d);
    projection_backward(p, layer, gradients, d, to);
  }
  op.submit();
}

template prepared_bias<float> prepared_bias_of(const transformer_config&, const planned_layer<float>&);
template prepared_bias<double> prepared_bias_of(const transformer_config&, const planned_layer<double>&);
template void attention_block(const pass<float>&, const planned_layer<float>&, bool);
template void attention_block(const pass<double>&, const planned_layer<double>&, bool);
template void attention_block_backward(const pass<float>&, const planned_layer<float>&, const layer_weights<float>&,
                                       const view<float, 2>&, const attention_block_gradients<float>&);
template void attention_block_backward(const pass<double>&, const planned_layer<double>&, const layer_weights<double>&,
                                       const view<double, 2>&, const attention_block_gradients<double>&);

}  // namespace nullscope::detail

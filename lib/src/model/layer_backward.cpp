#include "lib/src/model/layer_backward.hpp"

#include <nullscope/attention/attention.hpp>
#include <nullscope/linalg/rows.hpp>
#include <nullscope/model/layers.hpp>

#include "lib/src/core/fill.hpp"
#include "lib/src/model/pool.hpp"
#include "lib/src/model/pooled_attention.hpp"

namespace nullscope::detail {
namespace {

/// The gradient of what dropout saw: in place if there is dropout and nobody else needs d_sum, otherwise a copy.
template <class T>
view<T, 2> undrop(operation& op, const pass<T>& p, const view<T, 2>& d_sum, std::int64_t layer, int place) {
  if (!p.training || p.config.dropout == 0) return d_sum;
  const view<T, 2> result = op.take_array<T>(d_sum.extent[0], d_sum.extent[1]);
  copy(p.ctx, d_sum, result);
  drop(p, result, layer, place);
  return result;
}

/// d_middle (query_rows, d) += the gradient through the feed-forward layers for d_out, the gradient of their output.
/// The bias of the second one is left to the caller if `has_down_bias` is false.
template <class T>
void feed_forward_backward(operation& op, const pass<T>& p, const layer_weights<const T>& weights,
                           const layer_weights<T>& gradients, const layer_record<T>& record,
                           const view<const T, 2>& d_out, bool has_down_bias, const view<T, 2>& d_middle, bool adds) {
  const view<T, 2> d_activated = op.take_array<T>(record.activated.extent[0], record.activated.extent[1]);
  linear_backward(p.ctx, {record.activated, weights.down, d_out},
                  {d_activated, gradients.down, has_down_bias ? gradients.down_bias : view<T, 1>{}});
  activation_backward(p.ctx, {record.pre_activation, d_activated}, {d_activated, gradients.up_bias},
                      {p.config.function});
  linear_backward(p.ctx, {record.middle, weights.up, d_activated}, {d_middle, gradients.up, {}},
                  {.accumulate = true, .accumulate_x = adds});
}

/// From the gradient of attention's output (query_rows, d) to d_seen (rows, d), the gradient of what attention sees:
/// written, or added if `adds`. In a narrow layer also to d_query_input (query_rows, d), the gradient of what the
/// queries are made from: added to what is there in a post-LN model, where the residual has the same rows; written
/// otherwise.
template <class T>
void attention_part_backward(operation& op, const pass<T>& p, const layer_weights<const T>& weights,
                             const layer_weights<T>& gradients, const layer_shape& shape, const layer_record<T>& record,
                             const view<const T, 2>& d_out, const view<T, 2>& d_seen, bool adds,
                             const view<T, 2>& d_query_input) {
  const transformer_config& config = p.config;
  const std::int64_t q_width = config.query_width(), v_width = config.value_width();
  const view<T, 2> d_merged = op.take_array<T>(shape.query_rows(), config.merged_width());
  linear_backward(p.ctx, {record.merged, weights.output, d_out}, {d_merged, gradients.output, {}});
  view<T, 4> d_attended =
      heads_of(d_merged.data, shape.batch, shape.queries, config.heads, config.value_size, config.merged_width());
  if (config.merge == head_merge::added) d_attended.stride[1] = 0;  // every head gets the gradient of the sum

  const view<const T, 2> seen = record.normed_input.is_absent() ? record.input : record.normed_input;
  const auto rows_of = [](const auto& x, std::int64_t first, std::int64_t count) {
    return x.is_absent() ? x : slice(x, 0, first, count);
  };
  const auto query_backward = [&](const view<const T, 2>& d_q) {
    linear_backward(p.ctx, {record.query_input, slice(weights.query_key_value, 0, 0, q_width), d_q},
                    {d_query_input, rows_of(gradients.query_key_value, 0, q_width),
                     rows_of(gradients.query_key_value_bias, 0, q_width)},
                    {.accumulate = true, .accumulate_x = config.order == norm_order::post});
  };
  if (attends_to_tokens(config, shape)) {
    const view<T, 2> d_q = op.take_array<T>(shape.query_rows(), q_width);
    pooled_attention_backward<T>(op, p, weights, gradients, shape, record, seen, d_attended, d_seen, d_q);
    return query_backward(d_q);
  }

  layer_record<T> d;
  auto take = [&](std::int64_t count) { return op.take<T>(count); };
  take_query_key_value(config, shape, d, take);
  attention_options options;
  options.causal = config.causal && !shape.is_narrow();
  options.lengths = p.lengths;
  view<T, 2> d_bias;
  if (!p.d_relative.is_absent()) {
    d_bias = op.take_array<T>(config.heads, 2 * shape.tokens - 1);
    if (shape.is_narrow()) fill_zero(op, d_bias);  // it leaves distances out
  }
  attention_backward(
      p.ctx, {record.q, record.k, record.v, record.attended, record.log_sum_exp, d_attended, score_bias(p.bias, shape)},
      {d.q, d.k, d.v, score_bias(d_bias, shape)}, options);
  if (!d_bias.is_absent()) {
    relative_bias_backward(p.ctx, d_bias, p.d_relative, {config.relative_distance});
  }

  const linear_backward_options add{.accumulate = true, .accumulate_x = adds};
  if (!shape.is_narrow()) {
    const view<T, 2> d_projected = contiguous(d.q.data, shape.rows(), 2 * q_width + v_width);
    linear_backward(p.ctx, {seen, weights.query_key_value, d_projected},
                    {d_seen, gradients.query_key_value, gradients.query_key_value_bias}, add);
    return;
  }
  const std::int64_t rest = q_width + v_width;
  const view<T, 2> d_q = contiguous(d.q.data, shape.query_rows(), q_width);
  const view<T, 2> d_key_value = contiguous(d.k.data, shape.rows(), rest);
  linear_backward(p.ctx, {seen, slice(weights.query_key_value, 0, q_width, rest), d_key_value},
                  {d_seen, rows_of(gradients.query_key_value, q_width, rest),
                   rows_of(gradients.query_key_value_bias, q_width, rest)},
                  add);
  query_backward(d_q);
}

}  // namespace

template <class T>
void layer_backward(const pass<T>& p, const layer_weights<const T>& weights, const layer_weights<T>& gradients,
                    const layer_shape& shape, std::int64_t layer, const layer_record<T>& record,
                    const view<T, 2>& d_output, const view<T, 2>& d_input) {
  operation op(p.ctx, "layer_backward");
  const bool is_pre = p.config.order == norm_order::pre;
  const std::int64_t d = p.config.width;
  // Without dropout the gradient of a sum is that of the bias inside it, whose column sums the norm adds up on the way.
  const bool has_dropout = p.training && p.config.dropout > 0;
  const view<T, 1> fused_output_bias = has_dropout ? view<T, 1>{} : gradients.output_bias;
  const view<T, 1> fused_down_bias = has_dropout ? view<T, 1>{} : gradients.down_bias;
  // Of attention_sum. In a whole post-LN layer it is a part of the input's gradient, to which attention adds the rest.
  const bool begins_input = !is_pre && !shape.is_narrow();
  const view<T, 2> d_sum = begins_input ? d_input : op.take_array<T>(shape.query_rows(), d);
  if (is_pre) {
    const view<T, 2> d_feed_forward = undrop(op, p, d_output, layer, 2),
                     d_middle = op.take_array<T>(d_sum.extent[0], d);
    feed_forward_backward<T>(op, p, weights, gradients, record, d_feed_forward, true, d_middle, false);
    layer_norm_backward(
        p.ctx,
        {record.attention_sum, weights.feed_forward_norm.gamma, record.feed_forward_mean,
         record.feed_forward_inverse_deviation, d_middle, d_output},
        {d_sum, gradients.feed_forward_norm.gamma, gradients.feed_forward_norm.beta, fused_output_bias});
  } else {
    const view<T, 2> d_middle = op.take_array<T>(d_sum.extent[0], d);  // also of feed_forward_sum
    layer_norm_backward(
        p.ctx,
        {record.feed_forward_sum, weights.feed_forward_norm.gamma, record.feed_forward_mean,
         record.feed_forward_inverse_deviation, d_output},
        {d_middle, gradients.feed_forward_norm.gamma, gradients.feed_forward_norm.beta, fused_down_bias});
    const view<T, 2> d_feed_forward = undrop(op, p, d_middle, layer, 2);
    feed_forward_backward<T>(op, p, weights, gradients, record, d_feed_forward, has_dropout, d_middle, true);
    layer_norm_backward(p.ctx,
                        {record.attention_sum, weights.attention_norm.gamma, record.attention_mean,
                         record.attention_inverse_deviation, d_middle},
                        {d_sum, gradients.attention_norm.gamma, gradients.attention_norm.beta, fused_output_bias});
  }
  // d_sum reaches the residual, and the output of attention.
  const view<T, 2> d_attention = undrop(op, p, d_sum, layer, 1);
  if (has_dropout && !gradients.output_bias.is_absent()) {
    linear_backward(p.ctx, {record.merged, weights.output, d_attention}, {{}, {}, gradients.output_bias});
  }
  const auto by_sequence = [&](const view<T, 2>& x) { return contiguous(x.data, shape.batch, shape.tokens, d); };
  if (!is_pre) {
    if (begins_input) {
      attention_part_backward<T>(op, p, weights, gradients, shape, record, d_attention, d_input, true, {});
      return void(op.submit());
    }
    // The residual and the queries are rows of the input: their gradients go back together.
    const view<T, 2> d_rows = op.take_array<T>(shape.query_rows(), d);
    copy(p.ctx, d_sum, d_rows);
    attention_part_backward<T>(op, p, weights, gradients, shape, record, d_attention, d_input, false, d_rows);
    unpool_tokens<T>(p.ctx, p.config.pool, d_rows, p.lengths, by_sequence(d_input), true);
    return void(op.submit());
  }
  const view<T, 2> d_seen = op.take_array<T>(shape.rows(), d), d_residual = op.take_array<T>(shape.rows(), d);
  const view<T, 2> d_rows = op.take_array<T>(shape.query_rows(), d);
  attention_part_backward<T>(op, p, weights, gradients, shape, record, d_attention, d_seen, false, d_rows);
  if (shape.is_narrow()) {
    unpool_tokens<T>(p.ctx, p.config.pool, d_rows, p.lengths, by_sequence(d_seen), true);
    unpool_tokens<T>(p.ctx, p.config.pool, d_sum, p.lengths, by_sequence(d_residual), false);
  }
  layer_norm_backward(p.ctx,
                      {record.input, weights.attention_norm.gamma, record.attention_mean,
                       record.attention_inverse_deviation, d_seen, shape.is_narrow() ? d_residual : d_sum},
                      {d_input, gradients.attention_norm.gamma, gradients.attention_norm.beta});
  op.submit();
}

template void layer_backward(const pass<float>&, const layer_weights<const float>&, const layer_weights<float>&,
                             const layer_shape&, std::int64_t, const layer_record<float>&, const view<float, 2>&,
                             const view<float, 2>&);
template void layer_backward(const pass<double>&, const layer_weights<const double>&, const layer_weights<double>&,
                             const layer_shape&, std::int64_t, const layer_record<double>&, const view<double, 2>&,
                             const view<double, 2>&);

}  // namespace nullscope::detail

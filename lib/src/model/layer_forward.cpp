#include "lib/src/model/layer_forward.hpp"

#include <nullscope/attention.hpp>
#include <nullscope/layers.hpp>
#include <nullscope/rows.hpp>

#include "lib/src/model/pool.hpp"
#include "lib/src/model/pooled_attention.hpp"

namespace nullscope::detail {
namespace {

/// (rows, width) of the array that q, k and v of a layer were taken from; in a narrow layer that of k and v.
template <class T>
view<T, 2> projected(const layer_record<T>& record, const layer_shape& shape, std::int64_t width) {
  return contiguous(shape.is_narrow() ? record.k.data : record.q.data, shape.rows(), width);
}

/// q, k, v = the three parts of x w^T + b; in a narrow layer q of the pooled token alone.
template <class T>
void project(const pass<T>& p, const layer_weights<const T>& weights, const layer_shape& shape,
             const view<const T, 2>& seen, layer_record<T>& record) {
  const std::int64_t q_width = p.config.query_width(), width = 2 * q_width + p.config.value_width();
  const view<const T, 1>& bias = weights.query_key_value_bias;
  if (!shape.is_narrow()) {
    linear(p.ctx, {seen, weights.query_key_value, bias}, {projected(record, shape, width)});
    return;
  }
  const auto part = [&](std::int64_t first, std::int64_t count) {
    return linear_operands<T>{
        {}, slice(weights.query_key_value, 0, first, count), bias.is_absent() ? bias : slice(bias, 0, first, count)};
  };
  linear_operands<T> query = part(0, q_width), key_value = part(q_width, width - q_width);
  query.x = record.query_input;
  key_value.x = seen;
  linear(p.ctx, query, {contiguous(record.q.data, shape.query_rows(), q_width)});
  linear(p.ctx, key_value, {projected(record, shape, width - q_width)});
}

/// The sum of the heads' outputs.
template <class T>
void add_heads(const pass<T>& p, const layer_shape& shape, const layer_record<T>& record) {
  const std::int64_t size = p.config.value_size, heads = p.config.heads;
  const view<const T, 3> attended{record.attended.data, {shape.query_rows(), size, heads}, {heads * size, 1, size}};
  row_reduce(p.ctx, attended, record.merged, row_reduction::sum);
}

}  // namespace

template <class T>
void drop(const pass<T>& p, const view<T, 2>& x, std::int64_t layer, int place) {
  if (!p.training || p.config.dropout == 0) return;
  constexpr std::uint64_t places = 4;
  const random_stream stream{p.dropout.seed, p.dropout.stream + static_cast<std::uint64_t>(layer) * places +
                                                 static_cast<std::uint64_t>(place)};
  dropout(p.ctx, x, x, {.probability = p.config.dropout, .stream = stream});
}

template <class T>
void layer_forward(const pass<T>& p, const layer_weights<const T>& weights, const layer_shape& shape,
                   std::int64_t layer, const residual_pair<T>& entering, layer_record<T>& record,
                   const view<T, 2>& output) {
  const bool is_pre = p.config.order == norm_order::pre;
  const layer_norm_residual_options norm{p.config.norm_epsilon};
  view<const T, 2> seen = record.input;
  if (is_pre) {
    const bool is_first = entering.x.is_absent();
    layer_norm_residual(p.ctx,
                        {is_first ? view<const T, 2>(record.input) : entering.x, entering.residual,
                         weights.attention_norm.gamma, weights.attention_norm.beta},
                        {record.normed_input, is_first ? view<T, 2>{} : record.input, record.attention_mean,
                         record.attention_inverse_deviation},
                        norm);
    seen = record.normed_input;
  }
  view<const T, 2> residual = record.input;
  if (shape.is_narrow()) {
    const auto by_sequence = [&](const view<const T, 2>& x) {
      return contiguous(x.data, shape.batch, shape.tokens, p.config.width);
    };
    pool_tokens<T>(p.ctx, p.config.pool, by_sequence(record.input), p.lengths, record.residual);
    if (is_pre) pool_tokens<T>(p.ctx, p.config.pool, by_sequence(seen), p.lengths, record.query_input);
    residual = record.residual;
  }
  if (attends_to_tokens(p.config, shape)) {
    pooled_attention<T>(p, weights, shape, seen, record);
  } else {
    project(p, weights, shape, seen, record);
    attention_options options;
    options.causal = p.config.causal && !shape.is_narrow();  // the pooled token is the last one, which sees all
    options.lengths = p.lengths;
    attention(p.ctx, {record.q, record.k, record.v, score_bias(p.bias, shape)},
              {.out = record.attended, .log_sum_exp = record.log_sum_exp}, options);
  }
  if (p.config.merge == head_merge::added) add_heads(p, shape, record);

  // The output of attention goes where its sum with the residual will be.
  linear(p.ctx, {record.merged, weights.output, weights.output_bias}, {record.attention_sum});
  drop(p, record.attention_sum, layer, 1);
  const norm_weights<const T>& second = is_pre ? weights.feed_forward_norm : weights.attention_norm;
  layer_norm_residual(p.ctx, {record.attention_sum, residual, second.gamma, second.beta},
                      {record.middle, record.attention_sum, is_pre ? record.feed_forward_mean : record.attention_mean,
                       is_pre ? record.feed_forward_inverse_deviation : record.attention_inverse_deviation},
                      norm);
  linear(p.ctx, {record.middle, weights.up, weights.up_bias}, {record.activated, record.pre_activation},
         {p.config.function});
  const view<T, 2> sum = is_pre ? output : record.feed_forward_sum;
  linear(p.ctx, {record.activated, weights.down, weights.down_bias}, {sum});
  drop(p, sum, layer, 2);
  if (is_pre) return;
  layer_norm_residual(p.ctx, {sum, record.middle, weights.feed_forward_norm.gamma, weights.feed_forward_norm.beta},
                      {output, sum, record.feed_forward_mean, record.feed_forward_inverse_deviation}, norm);
}

template void drop(const pass<float>&, const view<float, 2>&, std::int64_t, int);
template void drop(const pass<double>&, const view<double, 2>&, std::int64_t, int);
template void layer_forward(const pass<float>&, const layer_weights<const float>&, const layer_shape&, std::int64_t,
                            const residual_pair<float>&, layer_record<float>&, const view<float, 2>&);
template void layer_forward(const pass<double>&, const layer_weights<const double>&, const layer_shape&, std::int64_t,
                            const residual_pair<double>&, layer_record<double>&, const view<double, 2>&);

}  // namespace nullscope::detail

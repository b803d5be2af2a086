#include "lib/src/model/layer_forward.hpp"

#include <nullscope/attention/attention.hpp>
#include <nullscope/linalg/rows.hpp>
#include <nullscope/model/layers.hpp>

#include "lib/src/model/pool.hpp"
#include "lib/src/model/pooled_attention.hpp"

namespace nullscope::detail {
namespace {

/// Where `part` of the array at `all` stands in a copy of that array that was rounded to bfloat16.
template <class Element, int Rank>
view<const bfloat16, Rank> rounded_part(const view<Element, Rank>& part, Element* all, const bfloat16* rounded) {
  view<const bfloat16, Rank> result;
  result.data = rounded + (part.data - all);
  std::copy_n(part.extent, Rank, result.extent);
  std::copy_n(part.stride, Rank, result.stride);
  return result;
}

/// y = f(x w^T + bias), with x and w rounded to bfloat16 if the pass says so.
template <class T>
void product(const pass<T>& p, const linear_operands<T>& operands, const linear_results<T>& results,
             const linear_options& options = {}) {
  if constexpr (std::is_same_v<T, float>) {
    if (p.rounded != nullptr) {
      operation op(p.ctx, "forward");
      const auto x = op.take_array<bfloat16>(operands.x.extent[0], operands.x.extent[1]);
      copy(p.ctx, operands.x, x);
      linear(p.ctx, linear_operands<bfloat16>{x, rounded_part(operands.w, p.values, p.rounded), operands.bias}, results,
             options);
      op.submit();
      return;
    }
  }
  linear(p.ctx, operands, results, options);
}

/// q, k, v = the three parts of x w^T + b; in a narrow layer q of the pooled token alone. If `has_bias`, b is there
/// already.
template <class T>
void project(const pass<T>& p, const layer_weights<const T>& weights, const layer_shape& shape,
             const view<const T, 2>& seen, bool has_bias, layer_record<T>& record) {
  const std::int64_t q_width = p.config.query_width(), width = 2 * q_width + p.config.value_width();
  const view<const T, 1>& bias = weights.query_key_value_bias;
  if (!shape.is_narrow()) {
    product<T>(p, {seen, weights.query_key_value, has_bias ? view<const T, 1>{} : bias},
               {projected(record, shape, width)}, {.accumulate = has_bias});
    return;
  }
  const auto part = [&](std::int64_t first, std::int64_t count) {
    return linear_operands<T>{
        {}, slice(weights.query_key_value, 0, first, count), bias.is_absent() ? bias : slice(bias, 0, first, count)};
  };
  linear_operands<T> query = part(0, q_width), key_value = part(q_width, width - q_width);
  query.x = record.query_input;
  key_value.x = seen;
  product<T>(p, query, {contiguous(record.q.data, shape.query_rows(), q_width)});
  product<T>(p, key_value, {projected(record, shape, width - q_width)});
}

/// What the heads attend to, with q, k and v rounded to bfloat16 if the pass says so.
template <class T>
void attend(const pass<T>& p, const layer_shape& shape, const layer_record<T>& record) {
  attention_options options;
  options.causal = p.config.causal && !shape.is_narrow();  // the pooled token is the last one, which sees all
  options.lengths = p.lengths;
  const view<const T, 4> bias = score_bias(p.bias, shape);
  const attention_results<T> results{.out = record.attended, .log_sum_exp = record.log_sum_exp};
  if constexpr (std::is_same_v<T, float>) {
    if (p.rounded != nullptr && !shape.is_narrow()) {
      operation op(p.ctx, "forward");
      const view<T, 2> all = projected(record, shape, 2 * p.config.query_width() + p.config.value_width());
      const auto rounded_all = op.take_array<bfloat16>(all.extent[0], all.extent[1]);
      copy(p.ctx, all, rounded_all);
      const auto part = [&](const view<T, 4>& x) { return rounded_part(x, all.data, rounded_all.data); };
      const attention_operands<bfloat16> heads{part(record.q), part(record.k), part(record.v), bias};
      attention(p.ctx, heads, results, options);
      op.submit();
      return;
    }
  }
  attention(p.ctx, {record.q, record.k, record.v, bias}, results, options);
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
                   const view<T, 2>& output, const next_projection<T>& next) {
  const bool is_pre = p.config.order == norm_order::pre;
  const layer_norm_residual_options norm{p.config.norm_epsilon};
  view<const T, 2> seen = record.input;
  bool has_projected_bias = entering.has_projected_bias;
  if (is_pre) {
    const bool is_first = entering.x.is_absent();
    const next_projection<T> own = projection_of(p.config, weights, shape, record);
    has_projected_bias = !own.rows.is_absent();
    layer_norm_residual(p.ctx,
                        {is_first ? view<const T, 2>(record.input) : entering.x, entering.residual,
                         weights.attention_norm.gamma, weights.attention_norm.beta, entering.bias, own.bias},
                        {record.normed_input, is_first ? view<T, 2>{} : record.input, record.attention_mean,
                         record.attention_inverse_deviation, own.rows},
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
    project(p, weights, shape, seen, has_projected_bias, record);
    attend(p, shape, record);
  }
  if (p.config.merge == head_merge::added) add_heads(p, shape, record);

  // The output of attention goes where its sum with the residual will be.
  const bool is_fused = norm_adds_bias(p);
  const view<const T, 1> none;
  product<T>(p, {record.merged, weights.output, is_fused ? none : weights.output_bias}, {record.attention_sum});
  drop(p, record.attention_sum, layer, 1);
  const norm_weights<const T>& second = is_pre ? weights.feed_forward_norm : weights.attention_norm;
  layer_norm_residual(
      p.ctx, {record.attention_sum, residual, second.gamma, second.beta, is_fused ? weights.output_bias : none},
      {record.middle, record.attention_sum, is_pre ? record.feed_forward_mean : record.attention_mean,
       is_pre ? record.feed_forward_inverse_deviation : record.attention_inverse_deviation},
      norm);
  product<T>(p, {record.middle, weights.up, weights.up_bias}, {record.activated, record.pre_activation},
             {p.config.function});
  const view<T, 2> sum = is_pre ? output : record.feed_forward_sum;
  product<T>(p, {record.activated, weights.down, is_fused ? none : weights.down_bias}, {sum});
  drop(p, sum, layer, 2);
  if (is_pre) return;
  layer_norm_residual(p.ctx,
                      {sum, record.middle, weights.feed_forward_norm.gamma, weights.feed_forward_norm.beta,
                       is_fused ? weights.down_bias : none, next.bias},
                      {output, sum, record.feed_forward_mean, record.feed_forward_inverse_deviation, next.rows}, norm);
}

template void drop(const pass<float>&, const view<float, 2>&, std::int64_t, int);
template void drop(const pass<double>&, const view<double, 2>&, std::int64_t, int);
template void layer_forward(const pass<float>&, const layer_weights<const float>&, const layer_shape&, std::int64_t,
                            const residual_pair<float>&, layer_record<float>&, const view<float, 2>&,
                            const next_projection<float>&);
template void layer_forward(const pass<double>&, const layer_weights<const double>&, const layer_shape&, std::int64_t,
                            const residual_pair<double>&, layer_record<double>&, const view<double, 2>&,
                            const next_projection<double>&);

}  // namespace nullscope::detail

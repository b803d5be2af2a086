#include <fmt/format.h>

#include <cmath>
#include <nullscope/attention/attention.hpp>
#include <nullscope/core/errors.hpp>
#include <nullscope/linalg/rows.hpp>
#include <nullscope/model/model_states.hpp>

#include "lib/src/model/pass_plan.hpp"
#include "lib/src/model/pool.hpp"

namespace nullscope {
namespace {

/// The part of host memory (outer, S, columns) that belongs to the first `count` rows of each outer index.
template <class T>
void append_rows(std::vector<T>& to, const T* from, std::int64_t outer, std::int64_t outer_stride, std::int64_t count,
                 std::int64_t columns) {
  for (std::int64_t i = 0; i < outer; ++i) {
    to.insert(to.end(), from + i * outer_stride, from + i * outer_stride + count * columns);
  }
}

/// The bias (heads, count, count) of the first tokens from a table (heads, 2 S - 1); nothing from nothing.
template <class T>
std::vector<T> expanded(const std::vector<T>& table, std::int64_t heads, std::int64_t tokens, std::int64_t count) {
  std::vector<T> bias;
  if (table.empty()) return bias;
  for (std::int64_t row = 0; row < heads * count; ++row) {
    const std::int64_t head = row / count, query = row % count;
    const T* const first_key = table.data() + head * (2 * tokens - 1) + tokens - 1 - query;
    bias.insert(bias.end(), first_key, first_key + count);
  }
  return bias;
}

template <class T>
void scale_to_length_one(std::vector<T>& x) {
  double sum = 0;
  for (const T value : x) sum += static_cast<double>(value) * static_cast<double>(value);
  const double length = std::sqrt(sum);
  if (length == 0) return;
  for (T& value : x) value = static_cast<T>(static_cast<double>(value) / length);
}

/// q, k, v and h of one sequence, densely packed on the device.
template <class T>
struct dense_heads {
  tensor<T> q, k, v, h;

  dense_heads(context& ctx, const attention_heads<T>& heads)
      : q(packed(ctx, heads.q)), k(packed(ctx, heads.k)), v(packed(ctx, heads.v)), h(packed(ctx, heads.h)) {}

  static tensor<T> packed(context& ctx, const view<const T, 3>& x) {
    tensor<T> result(ctx, {x.extent[0], x.extent[1], x.extent[2]});
    copy(ctx, x, result);
    return result;
  }
};

/// What a batch leaves on the device.
template <class T>
struct device_states {
  tensor<T> hidden;      // (layers + 1, batch, S, d)
  tensor<T> weights;     // (layers, batch, heads, S, S)
  tensor<T> pooled;      // (batch, d)
  tensor<T> bias_table;  // (heads, 2 S - 1)
  std::vector<dense_heads<T>> heads;
};

template <class T>
device_states<T> compute(context& ctx, const transformer<T>& model, const token_batch& batch,
                         const model_states_options& options) {
  const transformer_config& config = model.config();
  const std::int64_t b = batch.size(), s = batch.tokens(), d = config.width, heads = config.heads;
  device_states<T> result;
  result.hidden = tensor<T>(ctx, {config.layers + 1, b, s, d});
  if (options.attention) result.weights = tensor<T>(ctx, {config.layers, b, heads, s, s});
  if (options.pool) result.pooled = tensor<T>(ctx, {b, d});
  std::optional<forward_record<T>> record;
  if (options.attention || options.heads_of_layer > 0) record.emplace(ctx, config, b, s, keep::heads);

  operation op(ctx, "read_states");  // one, so that all kernels are compiled together
  forward(ctx, model, batch, {.hidden = result.hidden},
          {.record = record ? &*record : nullptr, .rounded_values = options.rounded_values});
  if (config.relative_buckets > 0) {
    result.bias_table = tensor<T>(ctx, {heads, 2 * s - 1});
    relative_bias(ctx, model.matrix("relative_bias"), result.bias_table, {config.relative_distance});
  }
  const view<const T, 2> table = result.bias_table;
  const view<const T, 4> bias = table.is_absent() ? view<const T, 4>{} : relative_bias_view(table, b);
  if (options.attention) {
    const auto plan = detail::pass_plan<T>::of_filled(model, *record);
    for (const auto& [layer, shape, weights, arrays] : plan.layers) {
      attention_weights(ctx, {arrays.q, arrays.k, arrays.log_sum_exp, bias},
                        contiguous(result.weights.data() + layer * b * heads * s * s, b, heads, s, s),
                        {.attention = {.causal = config.causal, .lengths = batch.device_lengths()}});
    }
  }
  for (std::int64_t i = 0; options.heads_of_layer > 0 && i < b; ++i) {
    const std::int64_t tokens = batch.lengths()[static_cast<std::size_t>(i)];
    result.heads.emplace_back(ctx, layer_heads(model, *record, {options.heads_of_layer - 1, i, tokens}, table));
  }
  if (options.pool) {
    const T* const last = result.hidden.data() + config.layers * b * s * d;
    detail::pool_tokens<T>(ctx, *options.pool, contiguous(last, b, s, d), batch.device_lengths(), result.pooled);
  }
  op.submit_and_wait();
  return result;
}

}  // namespace

template <class T>
attention_heads<T> layer_heads(const transformer<T>& model, forward_record<T>& record,
                               const layer_heads_options& options,
                               const view<const std::type_identity_t<T>, 2>& bias_table) {
  const transformer_config& config = model.config();
  if (options.layer < 0 || options.layer >= config.layers) {
    throw invalid_argument(fmt::format("layer_heads: there is no layer {} of {}", options.layer, config.layers));
  }
  const auto plan = detail::pass_plan<T>::of_filled(model, record);
  const auto& [number, shape, weights, arrays] = plan.layers[static_cast<std::size_t>(options.layer)];
  if (arrays.k.is_absent()) throw invalid_argument("layer_heads: the forward pass did not keep the heads");
  const std::int64_t batch = shape.batch, tokens = shape.tokens;
  if (options.sequence < 0 || options.sequence >= batch) {
    throw invalid_argument(fmt::format("layer_heads: there is no sequence {} of {}", options.sequence, batch));
  }
  if (options.tokens < 1 || options.tokens > tokens) {
    throw invalid_argument(fmt::format("layer_heads: {} tokens are not from 1 to {}", options.tokens, tokens));
  }
  const auto of_sequence = [&](const view<T, 4>& x) {
    return slice(select(x, 0, options.sequence), 1, 0, std::min(options.tokens, x.extent[2]));
  };
  // The output weight is (d, h d_v): head i's h is the transpose of its d_v columns. Added heads share all of (d, d_v).
  const view<const T, 2>& output = weights.output;
  const std::int64_t step = config.merge == head_merge::added ? 0 : config.value_size;
  const view<const T, 3> h{
      output.data, {config.heads, config.value_size, config.width}, {step, output.stride[1], output.stride[0]}};
  attention_heads<T> heads{of_sequence(arrays.q), of_sequence(arrays.k), of_sequence(arrays.v), h};
  if (config.relative_buckets > 0) {
    if (bias_table.extent[0] != config.heads || bias_table.extent[1] < 2 * options.tokens - 1) {
      throw invalid_argument(fmt::format("layer_heads: bias_table ({}, {}) is not ({}, 2 S - 1) for {} tokens",
                                         bias_table.extent[0], bias_table.extent[1], config.heads, options.tokens));
    }
    const view<const T, 3> bias = select(relative_bias_view(bias_table, 1), 0, 0);
    heads.bias = slice(slice(bias, 1, 0, heads.q.extent[1]), 2, 0, options.tokens);
  }
  return heads;
}

template <class T>
std::vector<model_states<T>> read_states(context& ctx, const transformer<T>& model,
                                         std::span<const token_batch::sequence> sequences,
                                         const model_states_options& options) {
  transformer_config config = model.config();
  if (options.heads_of_layer < 0 || options.heads_of_layer > config.layers) {
    throw invalid_argument(
        fmt::format("read_states: the model has layers 1 to {}, not {}", config.layers, options.heads_of_layer));
  }
  if (!options.rounded_values.is_absent() && (options.attention || options.heads_of_layer > 0)) {
    throw invalid_argument("read_states: rounded_values leave out attention and heads, which need them unrounded");
  }
  config.pairs = false;
  const token_batch batch(ctx, config, sequences);
  const device_states<T> states = compute(ctx, model, batch, options);
  const std::vector<T> hidden = states.hidden.to_host(), weights = states.weights.to_host(),
                       pooled = states.pooled.to_host(), bias_table = states.bias_table.to_host();
  const std::int64_t b = batch.size(), s = batch.tokens(), d = config.width;
  std::vector<model_states<T>> result(static_cast<std::size_t>(b));
  for (std::int64_t i = 0; i < b; ++i) {
    model_states<T>& one = result[static_cast<std::size_t>(i)];
    one.tokens = batch.lengths()[static_cast<std::size_t>(i)];
    append_rows(one.hidden, hidden.data() + i * s * d, config.layers + 1, b * s * d, one.tokens, d);
    for (std::int64_t row = 0; options.attention && row < config.layers * config.heads; ++row) {
      const std::int64_t layer = row / config.heads, head = row % config.heads;
      append_rows(one.attention, weights.data() + ((layer * b + i) * config.heads + head) * s * s, one.tokens, s, 1,
                  one.tokens);
    }
    if (options.pool) {
      append_rows(one.embedding, pooled.data() + i * d, 1, 0, 1, d);
      if (options.normalise) scale_to_length_one(one.embedding);
    }
    if (options.heads_of_layer == 0) continue;
    const dense_heads<T>& heads = states.heads[static_cast<std::size_t>(i)];
    one.q = heads.q.to_host();
    one.k = heads.k.to_host();
    one.v = heads.v.to_host();
    one.h = heads.h.to_host();
    one.bias = expanded(bias_table, config.heads, s, one.tokens);
  }
  return result;
}

template attention_heads<float> layer_heads(const transformer<float>&, forward_record<float>&,
                                            const layer_heads_options&, const view<const float, 2>&);
template attention_heads<double> layer_heads(const transformer<double>&, forward_record<double>&,
                                             const layer_heads_options&, const view<const double, 2>&);
template std::vector<model_states<float>> read_states(context&, const transformer<float>&,
                                                      std::span<const token_batch::sequence>,
                                                      const model_states_options&);
template std::vector<model_states<double>> read_states(context&, const transformer<double>&,
                                                       std::span<const token_batch::sequence>,
                                                       const model_states_options&);

}  // namespace nullscope

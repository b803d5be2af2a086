/// How the memory of one layer is laid out, in a record or in the workspace.
#pragma once

#include <cstdint>
#include <nullscope/model/transformer.hpp>

namespace nullscope::detail {

/// How many tokens a layer sees, and of how many it computes queries and what follows: all, or one per sequence.
struct layer_shape {
  std::int64_t batch, tokens, queries;
  std::int64_t rows() const { return batch * tokens; }
  std::int64_t query_rows() const { return batch * queries; }
  bool is_narrow() const { return queries != tokens; }
};

/// Whether the last layer can work on the pooled token alone: its query must see the same keys as in the whole layer,
/// at the same distances.
inline bool can_be_narrow(const transformer_config& config) {
  if (config.layers == 0 || config.pool == pooling::mean) return false;
  if (config.pool == pooling::first) return !config.causal;
  return config.relative_buckets == 0;
}

/// Whether a layer computes attention from its tokens alone, without their keys and values (pooled_attention.hpp).
inline bool attends_to_tokens(const transformer_config& config, const layer_shape& shape) {
  return shape.is_narrow() && config.relative_buckets == 0;
}

/// Heads side by side in rows: columns [first, first + heads * size) of memory (batch * tokens, width) as
/// (batch, heads, tokens, size).
template <class T>
view<T, 4> heads_of(T* data, std::int64_t batch, std::int64_t tokens, std::int64_t heads, std::int64_t size,
                    std::int64_t width, std::int64_t first = 0) {
  return {data + first, {batch, heads, tokens, size}, {tokens * width, size, width, 1}};
}

/// q, k and v of a layer: in one array (rows, 2 h d_k + h d_v), as one product writes them, or, in a narrow layer, q in
/// an array of its own; no k and v in a layer that attends to tokens.
template <class T, class Take>
void take_query_key_value(const transformer_config& config, const layer_shape& shape, layer_record<T>& record,
                          Take& take) {
  const auto& [batch, tokens, queries] = shape;
  const std::int64_t q_width = config.query_width(), v_width = config.value_width();
  const std::int64_t width = shape.is_narrow() ? q_width + v_width : 2 * q_width + v_width;
  const std::int64_t first_key = shape.is_narrow() ? 0 : q_width;
  if (attends_to_tokens(config, shape)) {
    record.q = heads_of(take(batch * q_width), batch, queries, config.heads, config.key_size, q_width);
    record.k = record.v = {};
    record.reach = contiguous(take(batch * 2 * config.heads * config.width), batch, 2 * config.heads, config.width);
    record.weights = contiguous(take(batch * 2 * config.heads * tokens), batch, 2 * config.heads, tokens);
    record.context = contiguous(take(batch * config.heads * config.width), batch, config.heads, config.width);
    return;
  }
  T* const array = take(shape.rows() * width);
  T* const q = shape.is_narrow() ? take(shape.query_rows() * q_width) : array;
  record.q = heads_of(q, batch, queries, config.heads, config.key_size, shape.is_narrow() ? q_width : width);
  record.k = heads_of(array, batch, tokens, config.heads, config.key_size, width, first_key);
  record.v = heads_of(array, batch, tokens, config.heads, config.value_size, width, first_key + q_width);
}

/// All that a layer computes, except its input; `take(count)` gives memory. What `keep::heads` does not need is only
/// taken if `whole`.
template <class T, class Take>
void take_layer(const transformer_config& config, const layer_shape& shape, bool whole, layer_record<T>& record,
                Take& take) {
  const std::int64_t rows = shape.rows(), query_rows = shape.query_rows(), d = config.width;
  const bool is_pre = config.order == norm_order::pre;
  const auto matrix = [&](std::int64_t columns) { return contiguous(take(query_rows * columns), query_rows, columns); };
  const auto numbers = [&](std::int64_t count) { return contiguous(take(count), count); };
  take_query_key_value(config, shape, record, take);
  T* const attended = take(query_rows * config.value_width());
  record.attended =
      heads_of(attended, shape.batch, shape.queries, config.heads, config.value_size, config.value_width());
  record.log_sum_exp = contiguous(take(query_rows * config.heads), shape.batch, config.heads, shape.queries);
  if (!whole) return;
  if (is_pre) record.normed_input = contiguous(take(rows * d), rows, d);
  if (shape.is_narrow()) {
    record.residual = matrix(d);
    record.query_input = is_pre ? matrix(d) : record.residual;
  }
  record.merged = config.merge == head_merge::added ? matrix(config.value_size)
                                                    : contiguous(attended, query_rows, config.value_width());
  record.attention_sum = matrix(d);
  record.middle = matrix(d);
  record.pre_activation = matrix(config.feed_forward);
  record.activated = matrix(config.feed_forward);
  if (!is_pre) record.feed_forward_sum = matrix(d);
  record.attention_mean = numbers(is_pre ? rows : query_rows);
  record.attention_inverse_deviation = numbers(is_pre ? rows : query_rows);
  record.feed_forward_mean = numbers(query_rows);
  record.feed_forward_inverse_deviation = numbers(query_rows);
}

}  // namespace nullscope::detail

/// The arrays of one layer, in a record or in the workspace.
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

/// What the heads compute: all that keep::heads keeps.
template <class T>
struct head_arrays {
  view<T, 4> q;            // (batch, heads, queries, d_k), strided
  view<T, 4> k, v;         // (batch, heads, S, d_k or d_v), strided
  view<T, 3> reach;        // (batch, 2 heads, d): in place of k and v in a layer that attends to tokens:
  view<T, 3> weights;      // (batch, 2 heads, S): W_k^T q / sqrt(d_k) and attention weights, with room for gradients
  view<T, 3> context;      // (batch, heads, d): sum of the tokens by their weights
  view<T, 4> attended;     // (batch, heads, queries, d_v): A v, per head
  view<T, 3> log_sum_exp;  // (batch, heads, queries)
};

template <class T>
struct norm_statistics {
  view<T, 1> mean, inverse_deviation;  // of each row; only for a backward pass
};

/// The steps from one hidden state to the next. An array that stands for another is set by `share_arrays`.
template <class T>
struct step_arrays {
  view<T, 2> seen;           // (rows, d): what attention sees: post-LN: the input; pre-LN: its norm
  view<T, 2> residual;       // (query_rows, d): rows of the input for the queries: all of them in a whole layer
  view<T, 2> query_input;    // (query_rows, d): rows of `seen` for the queries of a narrow layer
  view<T, 2> merged;         // (query_rows, h d_v, or d_v if heads are added): `attended` as rows, or its sum
  view<T, 2> attention_sum;  // (query_rows, d): residual + output of attention
  view<T, 2> middle;         // (query_rows, d): its norm, which feed-forward sees
  view<T, 2> pre_activation, activated;  // (query_rows, feed_forward); the first only for a backward pass
  view<T, 2> feed_forward_sum;  // (query_rows, d): post-LN: middle + output of feed-forward; pre-LN: that output alone
  norm_statistics<T> attention_norm, feed_forward_norm;
};

template <class T>
struct layer_arrays : head_arrays<T>, step_arrays<T> {
  view<T, 2> input;  // (rows, d): hidden state that enters the layer

  head_arrays<T>& heads() { return *this; }
  step_arrays<T>& steps() { return *this; }
};

/// What the norm before attention (pre-LN) or after it (post-LN) sees, and the norm before or after feed-forward.
template <class T>
view<T, 2> attention_norm_input(const transformer_config& config, const layer_arrays<T>& arrays) {
  return config.order == norm_order::pre ? arrays.input : arrays.attention_sum;
}
template <class T>
view<T, 2> feed_forward_norm_input(const transformer_config& config, const layer_arrays<T>& arrays) {
  return config.order == norm_order::pre ? arrays.attention_sum : arrays.feed_forward_sum;
}

/// Heads side by side in rows: columns [first, first + heads * size) of memory (batch * tokens, width) as
/// (batch, heads, tokens, size).
template <class T>
view<T, 4> heads_of(T* data, std::int64_t batch, std::int64_t tokens, std::int64_t heads, std::int64_t size,
                    std::int64_t width, std::int64_t first = 0) {
  return {data + first, {batch, heads, tokens, size}, {tokens * width, size, width, 1}};
}

/// q, k and v of a layer: in one array (rows, 2 h d_k + h d_v), as one product writes them, or, in a narrow layer, q in
/// an array of its own; no k and v in a layer that attends to tokens. `take(count)` gives memory.
template <class T, class Take>
void take_query_key_value(const transformer_config& config, const layer_shape& shape, head_arrays<T>& to, Take&& take) {
  const auto& [batch, tokens, queries] = shape;
  const std::int64_t q_width = config.query_width(), v_width = config.value_width();
  const std::int64_t width = shape.is_narrow() ? q_width + v_width : 2 * q_width + v_width;
  const std::int64_t first_key = shape.is_narrow() ? 0 : q_width;
  if (attends_to_tokens(config, shape)) {
    to.q = heads_of(take(batch * q_width), batch, queries, config.heads, config.key_size, q_width);
    to.reach = contiguous(take(batch * 2 * config.heads * config.width), batch, 2 * config.heads, config.width);
    to.weights = contiguous(take(batch * 2 * config.heads * tokens), batch, 2 * config.heads, tokens);
    to.context = contiguous(take(batch * config.heads * config.width), batch, config.heads, config.width);
    return;
  }
  T* const array = take(shape.rows() * width);
  T* const q = shape.is_narrow() ? take(shape.query_rows() * q_width) : array;
  to.q = heads_of(q, batch, queries, config.heads, config.key_size, shape.is_narrow() ? q_width : width);
  to.k = heads_of(array, batch, tokens, config.heads, config.key_size, width, first_key);
  to.v = heads_of(array, batch, tokens, config.heads, config.value_size, width, first_key + q_width);
}

template <class T, class Take>
void take_heads(const transformer_config& config, const layer_shape& shape, head_arrays<T>& to, Take&& take) {
  take_query_key_value(config, shape, to, take);
  const std::int64_t width = config.value_width(), query_rows = shape.query_rows();
  to.attended = heads_of(take(query_rows * width), shape.batch, shape.queries, config.heads, config.value_size, width);
  to.log_sum_exp = contiguous(take(query_rows * config.heads), shape.batch, config.heads, shape.queries);
}

/// The steps, but for a pre-LN layer's feed_forward_sum, which the next norm reads and nobody keeps.
template <class T, class Take>
void take_steps(const transformer_config& config, const layer_shape& shape, bool for_backward, step_arrays<T>& to,
                Take&& take) {
  const std::int64_t rows = shape.rows(), query_rows = shape.query_rows(), d = config.width;
  const bool is_pre = config.order == norm_order::pre;
  const auto matrix = [&](std::int64_t columns) { return contiguous(take(query_rows * columns), query_rows, columns); };
  const auto statistics = [&](std::int64_t count) -> norm_statistics<T> {
    const view<T, 1> mean = contiguous(take(count), count);
    return {mean, contiguous(take(count), count)};
  };
  if (is_pre) to.seen = contiguous(take(rows * d), rows, d);
  if (shape.is_narrow()) to.residual = matrix(d);
  if (shape.is_narrow() && is_pre) to.query_input = matrix(d);
  if (config.merge == head_merge::added) to.merged = matrix(config.value_size);
  to.attention_sum = matrix(d);
  to.middle = matrix(d);
  if (for_backward) to.pre_activation = matrix(config.feed_forward);
  to.activated = matrix(config.feed_forward);
  if (!is_pre) to.feed_forward_sum = matrix(d);
  if (!for_backward) return;
  to.attention_norm = statistics(is_pre ? rows : query_rows);
  to.feed_forward_norm = statistics(query_rows);
}

/// Sets the steps that have no array of their own.
template <class T>
void share_arrays(const transformer_config& config, const layer_shape& shape, layer_arrays<T>& arrays) {
  const bool is_pre = config.order == norm_order::pre;
  if (!is_pre) arrays.seen = arrays.input;
  if (!shape.is_narrow()) arrays.residual = arrays.input;
  if (shape.is_narrow() && !is_pre) arrays.query_input = arrays.residual;
  if (config.merge == head_merge::concatenated) {
    arrays.merged = contiguous(arrays.attended.data, shape.query_rows(), config.value_width());
  }
}

}  // namespace nullscope::detail

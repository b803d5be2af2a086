/// The forward pass of one layer, shared by `forward` and by `backward` where it computes a layer again.
#pragma once

#include <cstdint>
#include <nullscope/attention/attention.hpp>
#include <nullscope/model/transformer.hpp>

#include "lib/src/model/layer_memory.hpp"
#include "lib/src/model/parameters.hpp"

namespace nullscope::detail {

/// What all layers of a pass share.
template <class T>
struct pass {
  context& ctx;
  const transformer_config& config;
  view<const std::int64_t, 1> lengths;
  bool training;
  random_stream dropout;       // of this step; layers take streams after it
  view<const T, 2> bias = {};  // (heads, 2 S - 1): relative positions
  view<T, 2> d_relative = {};  // (buckets, heads): backward: gradient of the weights behind the bias
  const T* values = nullptr;   // the parameters, and the same rounded to bfloat16, if products are to take them
  const bfloat16* rounded = nullptr;
};

/// The table (heads, 2 tokens - 1) of the bias; absent if the model has none.
template <class T>
view<const T, 2> take_relative_bias(operation& op, const transformer_config& config, const view<const T, 2>& weights,
                                    std::int64_t tokens) {
  if (weights.is_absent()) return {};
  const view<T, 2> table = op.take_array<T>(config.heads, 2 * tokens - 1);
  relative_bias(op.ctx(), weights, table, {config.relative_distance});
  return table;
}

/// A table (heads, 2 S - 1), or its gradient, as the bias of the scores of a layer; absent if it is. In a narrow layer
/// the query is the first token.
template <class T>
view<T, 4> score_bias(const view<T, 2>& table, const layer_shape& shape) {
  if (table.is_absent()) return {};
  return slice(relative_bias_view(table, shape.batch), 2, 0, shape.queries);
}

/// Dropout of one of the places of a layer, in place; nothing outside training.
template <class T>
void drop(const pass<T>& p, const view<T, 2>& x, std::int64_t layer, int place);

/// Fills `record` from record.input (and, pre-LN, from what enters the first norm: see below), and writes the layer's
/// output (query_rows, d) into `output`.
///
/// Post-LN: output = norm(middle + feed_forward(middle)).
/// Pre-LN: output = attention_sum + feed_forward(middle) is not added up here: `output` gets feed_forward alone, and
/// the next norm adds attention_sum to it. `entering` is that pair of the layer before, with the bias of its last
/// product if that is still to be added; in the first layer it is absent, and record.input holds the hidden state
/// already.
template <class T>
struct residual_pair {
  view<const T, 2> x = {}, residual = {};
  view<const T, 1> bias = {};
  bool has_projected_bias = false;  // post-LN: q, k and v hold their biases already, to which the product is added
};

/// Where the norm at the end of a post-LN layer puts the biases of the next layer's q, k and v; absent: nowhere.
template <class T>
struct next_projection {
  view<const T, 1> bias = {};
  view<T, 2> rows = {};
};

/// Whether norms add the biases of the products before them. Dropout comes between the two.
template <class T>
bool norm_adds_bias(const pass<T>& p) {
  return !p.training || p.config.dropout == 0;
}

template <class T>
void layer_forward(const pass<T>& p, const layer_weights<const T>& weights, const layer_shape& shape,
                   std::int64_t layer, const residual_pair<T>& entering, layer_record<T>& record,
                   const view<T, 2>& output, const next_projection<T>& next = {});

/// (rows, width) of the array that q, k and v of a layer were taken from; in a narrow layer that of k and v.
template <class T>
view<T, 2> projected(const layer_record<T>& record, const layer_shape& shape, std::int64_t width) {
  return contiguous(shape.is_narrow() ? record.k.data : record.q.data, shape.rows(), width);
}

/// The biases of q, k and v of a layer and the array where they go; absent in a narrow layer.
template <class T>
next_projection<T> projection_of(const transformer_config& config, const layer_weights<const T>& weights,
                                 const layer_shape& shape, const layer_record<T>& record) {
  if (shape.is_narrow() || weights.query_key_value_bias.is_absent()) return {};
  return {weights.query_key_value_bias, projected(record, shape, 2 * config.query_width() + config.value_width())};
}

}  // namespace nullscope::detail

/// What the blocks of a transformer share in a pass, and the steps that they have in common.
#pragma once

#include <cstdint>
#include <nullscope/attention/attention.hpp>
#include <nullscope/model/layers.hpp>
#include <nullscope/model/transformer.hpp>

#include "lib/src/model/layer_arrays.hpp"

namespace nullscope::detail {

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

  bool has_dropout() const { return training && config.dropout > 0; }

  /// The norm after a product adds its bias, unless dropout comes between the two. Then the product does. The same
  /// holds for the gradient of the bias.
  template <class Element>
  view<Element, 1> bias_of_norm(const view<Element, 1>& bias) const {
    return has_dropout() ? view<Element, 1>{} : bias;
  }
  template <class Element>
  view<Element, 1> bias_of_product(const view<Element, 1>& bias) const {
    return has_dropout() ? bias : view<Element, 1>{};
  }
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

/// Where dropout is in a layer. The sum of the embeddings counts as a layer after the last one.
enum class dropout_place { embeddings, attention, feed_forward };

/// Dropout in place; nothing outside training. The gradient passes through the same call.
template <class T>
void drop(const pass<T>& p, const view<T, 2>& x, std::int64_t layer, dropout_place place);

/// y = f(x w^T + bias), with x and w rounded to bfloat16 if the pass says so.
template <class T>
void product(const pass<T>& p, const linear_operands<T>& operands, const linear_results<T>& results,
             const linear_options& options = {});

/// Where `part` of the array at `all` stands in a copy of that array that was rounded to bfloat16.
template <class Element, int Rank>
view<const bfloat16, Rank> rounded_part(const view<Element, Rank>& part, Element* all, const bfloat16* rounded) {
  view<const bfloat16, Rank> result;
  result.data = rounded + (part.data - all);
  std::copy_n(part.extent, Rank, result.extent);
  std::copy_n(part.stride, Rank, result.stride);
  return result;
}

/// The gradient of what dropout saw, from that of the sum it went into: d_sum itself without dropout, otherwise a copy.
template <class T>
view<T, 2> undrop(operation& op, const pass<T>& p, const view<T, 2>& d_sum, std::int64_t layer, dropout_place place);

}  // namespace nullscope::detail

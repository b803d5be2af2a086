/// Tangents through the layers of a transformer: forward mode, many tangents at a time.
///
/// Tangents stand in slots. A slot holds one tangent per sequence of the batch, as sequences do not see each other.
/// Arrays are (batch, rows, slots, width), where the rows are the tokens from `first` on: in a causal model, tangents
/// that entered at a later token leave the tokens before it alone.
#pragma once

#include <cstdint>
#include <nullscope/core/operation.hpp>
#include <nullscope/model/transformer.hpp>
#include <vector>

#include "lib/src/attribution/row_products.hpp"
#include "lib/src/attribution/tangent_products.hpp"
#include "lib/src/model/pass_plan.hpp"

namespace nullscope::detail {

/// Slots [first, first + count) hold tangents that enter at this token.
struct slots_of_token {
  std::int64_t token, first, count;
};

/// Tangents of the residual stream that have entered at one token each.
template <class T>
struct entering_tangents {
  view<T, 3> tangents;                 ///< (batch, slots, d)
  std::vector<slots_of_token> tokens;  ///< ascending, all slots
  const std::int64_t* token_of_slot;   ///< (slots), on the device
};

/// Memory for the tangents of some slots.
template <class T>
struct tangent_memory {
  std::int64_t first = 0;  ///< token of the first row
  view<T, 4> x, spare;     ///< (batch, rows, slots, d): tangents of the residual stream are in x between layers
  view<T, 4> attended;     ///< (batch, rows, slots, h d_v)
  view<T, 4> projected;    ///< (batch, tokens, slots, 2 h d_k + h d_v): zeros before `first`
  view<T, 4> activated;    ///< (batch, rows, slots, feed_forward); absent if no layer needs it
};

/// Columns [column, column + heads * size) of x (batch, tokens, slots, width) as
/// (slots, batch, heads, tokens from `token` on, size).
template <class T>
view<T, 5> heads_of_tangents(const view<T, 4>& x, std::int64_t token, std::int64_t column, std::int64_t heads,
                             std::int64_t size) {
  return {x.data + token * x.stride[1] + column,
          {x.extent[2], x.extent[0], heads, x.extent[1] - token, size},
          {x.stride[2], x.stride[0], size, x.stride[1], 1}};
}

template <class T>
class tangent_layers {
 public:
  /// The record keeps what `backward` needs; `forward` of this batch fills it before tangents pass. `bias`
  /// (heads, 2 S - 1) is the table of relative positions of a model that has them; see take_relative_bias. `rounded`:
  /// products with weights take factors in bfloat16.
  tangent_layers(context& ctx, const transformer<T>& model, const token_batch& batch, forward_record<T>& record,
                 const view<const T, 2>& bias, bool rounded = false);

  /// Makes what follows attention in these layers one matrix per token, and fills `jacobians` of each layer with them.
  /// The memory must outlive the object.
  void merge(const std::vector<layer_jacobians<T>>& jacobians);

  tangent_memory<T> take_memory(operation& op, std::int64_t first, std::int64_t slots) const;

  /// e (batch, slots, d), tangents of the sum of the embeddings, becomes those of hidden state 0.
  void through_embedding_norm(const entering_tangents<T>& entering) const;

  /// The same for dense tangents in memory.x.
  void through_embedding_norm(const tangent_memory<T>& memory) const;

  /// The first layer that tangents pass: from `entering` to memory.x.
  void enter(std::int64_t layer, const entering_tangents<T>& entering, tangent_memory<T>& memory) const;

  /// Any other layer: from memory.x to memory.x.
  void pass(std::int64_t layer, tangent_memory<T>& memory) const;

  /// Tangents of hidden state `layer` (1 to the number of layers) from memory.x, which the call may change only in the
  /// last layer: (batch, rows, slots, d).
  view<T, 4> hidden_state(std::int64_t layer, tangent_memory<T>& memory) const;

 private:
  const planned_layer<T>& planned(std::int64_t layer) const { return plan_.layers[static_cast<std::size_t>(layer)]; }
  norm_at_tokens<T> embedding_norm() const;
  norm_at_tokens<T> first_norm(std::int64_t layer) const;
  norm_at_tokens<T> second_norm(std::int64_t layer) const;
  void multiply_rows_by_norm(const norm_at_tokens<T>& norm, const tangent_memory<T>& memory, const view<T, 4>& from,
                             const view<T, 4>& to) const;
  view<const T, 2> output_weights(operation& op, std::int64_t layer) const;
  view<const T, 4> bias_of(std::int64_t first_query, std::int64_t queries, std::int64_t keys) const;
  void attend_to_entering(operation& op, std::int64_t layer, const entering_tangents<T>& entering,
                          const view<T, 3>& projected, const tangent_memory<T>& memory) const;
  void after_attention(std::int64_t layer, tangent_memory<T>& memory) const;
  void feed_forward(std::int64_t layer, const view<T, 4>& middle, const tangent_memory<T>& memory) const;
  view<T, 2> derivatives(operation& op, std::int64_t layer) const;
  void form_jacobians(std::int64_t layer, const layer_jacobians<T>& to) const;

  context& ctx_;
  pass_plan<T> plan_;
  const transformer_config& config_;
  std::int64_t batch_, tokens_;
  view<const std::int64_t, 1> lengths_;
  view<const T, 4> bias_;  // (batch, heads, tokens, tokens); absent if there is none
  bool rounded_;
  std::vector<layer_jacobians<T>> jacobians_;  // of each layer
};

}  // namespace nullscope::detail

/// The plan of a pass: which weights and which array every step takes, settled before anything is launched. Forward,
/// backward and tangents read the same one.
#pragma once

#include <cstdint>
#include <nullscope/core/operation.hpp>
#include <nullscope/model/transformer.hpp>
#include <vector>

#include "lib/src/model/layer_arrays.hpp"
#include "lib/src/model/weights.hpp"

namespace nullscope::detail {

/// Outside the layers. last_rows = batch * S, or batch if the last layer is narrow.
template <class T>
struct outer_arrays {
  view<T, 2> embedded;  // (rows, d): sum of the embeddings
  norm_statistics<T> embedding_norm;
  view<T, 2> last_sum;  // (last_rows, d): pre-LN: what the final norm sees
  norm_statistics<T> final_norm;
  view<T, 2> output;                                // (last_rows, d): last hidden state
  view<T, 2> pooled;                                // (batch, d): what the classifier reads
  view<T, 2> classifier_pre, classifier_activated;  // (batch, d)
};

/// What a record holds.
template <class T>
struct kept_arrays {
  outer_arrays<T> outer;
  std::vector<layer_arrays<T>> layers;
};

template <class T>
struct planned_layer {
  std::int64_t number;
  layer_shape shape;
  layer_weights<const T> weights;
  layer_arrays<T> arrays;
};

template <class T>
struct pass_plan {
  std::int64_t batch, tokens;
  bool is_narrow;  // the last layer computes the pooled token alone
  const transformer_config& config;
  outer_weights<const T> weights;
  outer_arrays<T> arrays;
  std::vector<planned_layer<T>> layers;

  /// No arrays yet.
  pass_plan(const transformer<T>& model, std::int64_t batch, std::int64_t tokens, bool is_narrow);

  /// The arrays that the record keeps of a batch of this shape. Throws invalid_argument if it does not fit.
  pass_plan(const transformer<T>& model, forward_record<T>& record, std::int64_t batch, std::int64_t tokens);

  /// Of the pass that filled the record. Throws invalid_argument if none did.
  static pass_plan of_filled(const transformer<T>& model, forward_record<T>& record);

  std::int64_t rows() const { return batch * tokens; }
  std::int64_t last_rows() const { return is_narrow ? batch : rows(); }

  /// Where hidden state `layer` is, from 0 to the number of layers.
  const view<T, 2>& hidden_state(std::int64_t layer) const;

  /// All other arrays of a forward pass: in the results, or in the workspace of `op`. The record is now of this pass.
  void take_forward(operation& op, const forward_results<T>& results, forward_record<T>* record);

  /// Arrays for layers that are computed again.
  void take_layers_again(operation& op) { take_layers(op, true); }

 private:
  void take_layers(operation& op, bool for_backward);
  void take_outer(operation& op, const forward_results<T>& results);
};

/// Hidden state `layer` in the results, as (rows, d), if it is asked for.
template <class T>
view<T, 2> asked_state(const forward_results<T>& results, std::int64_t layer) {
  const view<T, 4>& hidden = results.hidden;
  if (hidden.is_absent()) return {};
  return contiguous(&hidden(layer, 0, 0, 0), hidden.extent[1] * hidden.extent[2], hidden.extent[3]);
}

}  // namespace nullscope::detail

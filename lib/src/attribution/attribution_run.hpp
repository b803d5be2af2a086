/// The sweep of one batch: forward pass, merged Jacobians, directions, and chunks of tangents through the layers.
#pragma once

#include <cstdint>
#include <nullscope/attribution/hidden_token_attribution.hpp>
#include <nullscope/core/tensor.hpp>
#include <vector>

#include "lib/src/attribution/tangent_layers.hpp"

namespace nullscope::detail {

/// Whether so many tangents make up for forming the Jacobians of a layer.
bool merging_pays(const transformer_config& config, double tangents);

/// `plan`: allocates what outlives a sweep, but computes nothing, so that sweeps can only be measured.
enum class run_purpose { compute, plan };

template <class T>
class attribution_run {
 public:
  /// Runs the forward pass. Throws invalid_argument on options that cannot be.
  attribution_run(context& ctx, const transformer<T>& model, const token_batch& batch,
                  const attribution_options& options, run_purpose purpose = run_purpose::compute);

  /// Tangents per sequence, in all; slot i * per_token + c is direction c of token i.
  std::int64_t slots() const { return batch_.tokens() * per_token_; }
  std::int64_t per_token() const { return per_token_; }

  /// Tangents that fit the budget at the same time, in whole tokens if `whole_tokens`. Throws invalid_argument if not
  /// even one (or one token) does.
  std::int64_t slots_at_once(bool whole_tokens);

  /// Pushes slots [first, first + count) through the layers, as one operation; calls
  /// visit(op, position in `layers`, memory.first, tangents (batch, rows, slots, d)) at each layer that is asked for.
  template <class Visit>
  sycl::event sweep(std::int64_t first, std::int64_t count, Visit visit) {
    operation op(ctx_, "hidden_token_attribution");
    const entering_tangents<T> entering = take_entering(op, first, count);
    if (options_.from < 0) layers_.through_embedding_norm(entering);
    tangent_memory<T> memory =
        layers_.take_memory(op, model_.config().causal ? entering.tokens.front().token : 0, count);
    const std::int64_t first_layer = std::max<std::int64_t>(options_.from, 0);
    std::size_t position = 0;
    for (std::int64_t layer = first_layer; position < options_.layers.size(); ++layer) {
      if (layer == first_layer) {
        layers_.enter(layer, entering, memory);
      } else {
        layers_.pass(layer, memory);
      }
      if (options_.layers[position] != layer + 1) continue;
      visit(op, position, memory.first, layers_.hidden_state(layer + 1, memory));
      ++position;
    }
    return op.submit();
  }

  const attribution_options& options() const { return options_; }

 private:
  void draw_directions(run_purpose purpose);
  void choose_merging(run_purpose purpose);
  entering_tangents<T> take_entering(operation& op, std::int64_t first, std::int64_t count);
  std::int64_t bytes_of(std::int64_t slots);

  context& ctx_;
  const transformer<T>& model_;
  const token_batch& batch_;
  attribution_options options_;
  std::int64_t per_token_;
  forward_record<T> record_;
  tensor<T> bias_;  // (heads, 2 S - 1): relative positions, if the model has them
  tangent_layers<T> layers_;
  tensor<T> directions_;  // (batch, tokens, k, d), or (1, 1, d, d): the same for all
  tensor<T> jacobians_;   // (merged layers, batch * tokens, d, d); one of both, or none
  tensor<bfloat16> rounded_jacobians_;
};

}  // namespace nullscope::detail

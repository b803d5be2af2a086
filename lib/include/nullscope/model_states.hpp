/// What happens inside a model when it reads text: hidden states, attention, the heads of a layer, a sentence
/// embedding.
///
///   const transformer<float> model = load_transformer<float>(ctx, folder);
///   const auto states = read_states(ctx, model, {{{101, 7592, 2088, 102}}}, {.attention = true, .pool =
///   pooling::mean});
///   // states[0].hidden: (layers + 1, 4, d), states[0].attention: (layers, heads, 4, 4)
///
/// For people who want numbers on the host; `forward` and `layer_heads` are for those who go on computing.
#pragma once

#include <cstdint>
#include <nullscope/effective_attention.hpp>
#include <nullscope/transformer.hpp>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

namespace nullscope {

struct model_states_options {
  bool attention = false;  ///< the weights of all heads, S^2 numbers each

  std::int64_t heads_of_layer = 0;  ///< from 1 to layers: also q, k, v, h and bias of that layer; 0: none

  /// One vector from the last hidden state: a sentence embedding.
  std::optional<pooling> pool = std::nullopt;
  bool normalise = false;  ///< scale it to length one

  /// Products and attention in bfloat16, as in forward_options; not with `attention` or `heads_of_layer`, whose numbers
  /// would not be those that the pass used.
  view<const bfloat16, 1> rounded_values = {};
};

/// One sequence, without padding, the last dimension fastest. What was not asked for is empty.
template <class T>
struct model_states {
  std::int64_t tokens = 0;   ///< S
  std::vector<T> hidden;     ///< (layers + 1, S, d), as transformer.hpp says
  std::vector<T> attention;  ///< (layers, heads, S, S)
  std::vector<T> embedding;  ///< (d)
  std::vector<T> q, k;       ///< (heads, S, d_k)
  std::vector<T> v;          ///< (heads, S, d_v), with its bias
  std::vector<T> h;          ///< (heads, d_v, d): a head adds A v h to the output
  std::vector<T> bias;       ///< (heads, S, S): of the scores; only of models with relative positions
};

/// Computes and waits; all sequences are one batch. A model for pairs reads its texts one by one. Throws
/// invalid_argument: what token_batch refuses, a layer that is not there.
template <class T>
std::vector<model_states<T>> read_states(context& ctx, const transformer<T>& model,
                                         std::span<const token_batch::sequence> sequences,
                                         const model_states_options& options = {});

/// Of which layer (from 0), of which sequence of the batch, and how many tokens it has.
struct layer_heads_options {
  std::int64_t layer = 0, sequence = 0, tokens = 0;
};

/// The heads of a layer as `effective_attention` and `range_basis` take them: views of what a forward pass kept (with
/// keep::heads or keep::backward) and of the parameters; nothing is copied. T = v h, with v's bias, without the
/// output's. A model with relative positions needs its bias_table (heads, 2 S - 1), S >= tokens, from `relative_bias`.
template <class T>
attention_heads<T> layer_heads(const transformer<T>& model, const forward_views<T>& kept,
                               const layer_heads_options& options,
                               const view<const std::type_identity_t<T>, 2>& bias_table = {});

}  // namespace nullscope

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
#include <functional>
#include <memory>
#include <nullscope/attention/effective_attention.hpp>
#include <nullscope/core/context.hpp>
#include <nullscope/model/transformer.hpp>
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

/// The heads of a layer as `effective_attention` and `range_basis` take them: views of the record that the last forward
/// pass filled (with keep::heads or keep::backward) and of the parameters; nothing is copied. T = v h, with v's bias,
/// without the output's. A model with relative positions needs its bias_table (heads, 2 S - 1), S >= tokens, from
/// `relative_bias`.
template <class T>
attention_heads<T> layer_heads(const transformer<T>& model, forward_record<T>& record,
                               const layer_heads_options& options,
                               const view<const std::type_identity_t<T>, 2>& bias_table = {});

// The attention of every head of a model that reads one text, on the host: the raw weights, and what splits them into
// effective and null attention: effective_attention.hpp for encoders, by rows for causal models
// (effective_attention.hpp).
//
//   const transformer<float> model = load_transformer<float>(ctx, folder);
//   const attention_parts<float> parts = read_attention_parts(ctx, model, {{101, 7592, 2088, 102}});
//   // parts.raw: (layers, heads, 4, 4); parts.rank[0]: of T of the first head of the first layer
//
// For people who want to look at all heads at once, as `nullscope view` does. The S x S matrices of all heads are
// kept: layers * heads * S^2 numbers, once for encoders and twice for causal models.

/// S tokens, c = min(S, d_v, d); the last dimension is fastest.
template <class T>
struct attention_parts {
  std::int64_t layers = 0, heads = 0, tokens = 0, columns = 0;  ///< columns = c
  std::vector<T> raw;                                           ///< (layers, heads, S, S): A
  std::vector<T> basis;            ///< (layers, heads, S, c): U, zeros from the rank on; A_perp = A U U^T for encoders
  std::vector<T> effective;        ///< (layers, heads, S, S): A_perp; only of causal models, where U does not give it
  std::vector<T> singular_values;  ///< (layers, heads, c): of T = V H
  std::vector<std::int64_t> rank;  ///< (layers, heads): of T; dim LN(T) = S - rank
  std::vector<double> entropy;     ///< (layers, heads): of the rows of A, mean, in nats
  std::vector<effective_attention_summary<T>> summary;  ///< (layers, heads)
};

/// Computes and waits. Throws invalid_argument (what token_batch refuses), computation_error with the ids of the heads
/// that hold NaN or infinity, layer by layer.
template <class T>
attention_parts<T> read_attention_parts(context& ctx, const transformer<T>& model,
                                        const token_batch::sequence& sequence);

// Raw, effective and null attention of a whole model that reads texts (Brunner et al. 2020, sections 3.4, 3.5, A.2):
// for every head of every layer its numbers for each text, and the averages between classes of tokens over all texts.
//
//   model_attention<float> attention(ctx, model, 4);                 // four classes of tokens
//   const auto numbers = attention.add(ctx, texts);                  // each text with the classes of its tokens
//   const class_averages averages = attention.averages();
//
// Head h of layer l, both from 0, is number l * heads + h. Texts of different lengths may come together: they are read
// in batches of similar lengths, and the padding of a batch never enters T, attention or an average. Memory does not
// grow with the number of texts.
//
// Decoders are analysed by rows (effective_attention.hpp), encoders with all of T, unless the options say
// otherwise.

namespace detail {
template <class T>
class gathered_heads;
class attention_sums;
}  // namespace detail

struct classified_text {
  token_batch::sequence tokens;
  std::vector<std::int32_t> classes;  ///< of each token, from 0 to the number of classes - 1
};

struct model_attention_options {
  std::optional<bool> by_rows = std::nullopt;  ///< default: for causal models; needs one
  bool rollout = false;                        ///< also attention rollout, raw and effective
  std::int64_t batch_tokens = 1024;            ///< of texts that are read together, with padding; at least one text
};

/// One head that reads one text. The share of attention that lies in the null space is (null_norm / raw_norm)^2.
template <class T>
struct head_numbers {
  std::int64_t rank;                      ///< of T
  T pearson;                              ///< of raw and effective attention; NaN where one of them does not vary
  T raw_norm, effective_norm, null_norm;  ///< Frobenius norms
  T entropy;                              ///< of raw attention, in nats, mean over the queries
};

template <class T>
struct text_attention {
  std::int64_t tokens;
  std::vector<head_numbers<T>> heads;  ///< (layers * heads)
};

/// Means over texts and heads. The correlation is that of the heads that have one; NaN if there is none.
struct head_means {
  double rank = 0, pearson = 0, entropy = 0;
  double null_share = 0;  ///< of attention that lies in the null space
};

/// Of heads [first_head, first_head + count) of all texts.
template <class T>
head_means mean_of_heads(std::span<const text_attention<T>> texts, std::int64_t first_head, std::int64_t count);

/// For each head (or layer, in a rollout), and from each class to each class: the attention that a query of class
/// `from` pays to all keys of class `to`, mean over the queries of a text, then over the texts that have such a query.
/// From class number `classes` is from all tokens. NaN if no text has a token of class `from`.
struct class_averages {
  std::int64_t matrices = 0, classes = 0;
  std::vector<double> raw, effective;  ///< (matrices, classes + 1, classes)
  std::vector<std::int64_t> texts;     ///< (classes + 1): that have a token of the class

  double at(const std::vector<double>& numbers, std::int64_t matrix, std::int64_t from, std::int64_t to) const {
    return numbers[static_cast<std::size_t>((matrix * (classes + 1) + from) * classes + to)];
  }
};

template <class T>
class model_attention {
 public:
  /// The model must outlive this. Throws invalid_argument: no classes, by_rows for a model that is not causal.
  model_attention(context& ctx, const transformer<T>& model, std::int64_t classes,
                  const model_attention_options& options = {});
  ~model_attention();
  model_attention(model_attention&&) noexcept;

  std::int64_t heads() const { return heads_; }  ///< layers * heads of a layer
  bool is_by_rows() const { return by_rows_; }

  /// Reads the texts, adds them to the averages, and returns their numbers, in the same order. Calls progress(n) after
  /// each n texts. Waits. Throws invalid_argument (what token_batch refuses; as many classes as tokens are needed, each
  /// below the number of classes) before anything is read, computation_error if T of a head is not finite: the averages
  /// then have no text of that batch.
  std::vector<text_attention<T>> add(context& ctx, std::span<const classified_text> texts,
                                     const std::function<void(std::int64_t)>& progress = {});

  class_averages averages() const;          ///< of all texts so far; matrices are heads
  class_averages rollout_averages() const;  ///< matrices are layers; none without options.rollout

 private:
  struct text_results;

  void check(std::span<const classified_text> texts) const;
  void read_batch(context& ctx, std::span<const classified_text> texts, std::span<const std::size_t> chosen,
                  std::vector<text_attention<T>>& results);
  void analyse(context& ctx, forward_record<T>& record, std::int64_t sequence, text_results& to);

  const transformer<T>& model_;
  std::int64_t classes_, heads_;
  model_attention_options options_;
  bool by_rows_;
  std::unique_ptr<detail::gathered_heads<T>> gathered_;  // made for the longest text so far
  std::unique_ptr<detail::attention_sums> heads_sums_, rollout_sums_;
};

}  // namespace nullscope

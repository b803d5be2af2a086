/// What a transformer looks like: a plain description that determines every parameter and its shape.
#pragma once

#include <cstdint>
#include <memory>
#include <nullscope/core/bfloat16.hpp>
#include <nullscope/core/context.hpp>
#include <nullscope/core/operation.hpp>
#include <nullscope/core/tensor.hpp>
#include <nullscope/core/view.hpp>
#include <nullscope/linalg/random.hpp>
#include <nullscope/model/layers.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nullscope {

enum class norm_order {
  post,  ///< BERT: x = norm(x + attention(x)), x = norm(x + feed_forward(x))
  pre    ///< GPT-2: x += attention(norm(x)), x += feed_forward(norm(x)); a norm after the last layer
};

enum class head_merge {
  concatenated,  ///< outputs of the heads side by side, (h d_v) wide, times a matrix (h d_v) x d
  added          ///< outputs of the heads summed, d_v wide, times a matrix d_v x d (Bhardwaj et al. 2021, d_v = d)
};

/// Which token a classifier reads.
enum class pooling { first, last, mean };

struct transformer_config {
  std::int64_t layers = 1, width = 512, heads = 8;
  std::int64_t key_size = 64, value_size = 64;  ///< per head, independent of each other
  std::int64_t feed_forward = 2048;
  std::int64_t vocabulary = 0;
  std::int64_t positions = 512;     ///< longest sequence, and rows of the position table
  std::int64_t first_position = 0;  ///< row of the position table for the first token (MPNet: 2)
  bool has_positions = true;        ///< a learned position table
  std::int64_t segments = 0;        ///< rows of the segment table; 0: none
  norm_order order = norm_order::post;
  head_merge merge = head_merge::concatenated;
  activation function = activation::relu;
  bool biases = true;           ///< of the linear layers of attention and feed-forward
  bool embedding_norm = false;  ///< a layer norm after the sum of the embeddings
  bool causal = false;
  std::int64_t relative_buckets =
      0;  ///< MPNet's and T5's bias of the scores by bucketed distance, shared by all layers
  std::int64_t relative_distance = 128;  ///< from here on, all distances share a bucket
  double norm_epsilon = 1e-5;
  double dropout = 0;  ///< in training: embeddings, output of attention, output of feed-forward

  std::int64_t classes = 0;  ///< 0: no classifier
  pooling pool = pooling::first;
  activation classifier_hidden = activation::none;  ///< a d x d layer with this function in front; none: no such layer
  bool classifier_bias = true;
  bool pairs = false;           ///< a shared encoder for two sequences, whose pooled tokens are concatenated
  bool language_model = false;  ///< logits of the next token by the token table

  std::int64_t query_width() const { return heads * key_size; }
  std::int64_t value_width() const { return heads * value_size; }
  std::int64_t merged_width() const { return merge == head_merge::added ? value_size : value_width(); }

  /// Throws invalid_argument, naming the member, if something cannot be.
  void validate() const;
  bool operator==(const transformer_config&) const = default;
};

// A transformer: parameters, forward pass, backward pass. For encoders and causal decoders, as transformer.hpp
// describes them.
//
//   transformer<float> model(ctx, config);
//   model.initialise(ctx, seed);                                   // or load_transformer of model_folder.hpp
//   const token_batch batch(ctx, config, sequences);               // ids of several sequences, padded, checked
//   forward(ctx, model, batch, {.logits = logits});
//
// Hidden state 0 is the output of the embeddings (after their norm, if there is one); hidden state l is the output of
// layer l, the last one of a pre-LN model after the final norm. Tokens beyond a sequence's length are never seen by
// others; what their own rows hold is undefined but finite.

/// A named part of the flat array of parameters.
struct parameter {
  std::string name;                 ///< "layer.0.query_key_value.weight", for instance
  std::vector<std::int64_t> shape;  ///< (out, in), (n), (rows, d)
  std::int64_t offset, size;        ///< in the flat array
};

/// The parameters of a model of this kind, in order. Weights of linear layers are (out, in). Names, for layer L:
///   embedding.token (vocabulary, d)   embedding.position (positions + first_position, d)   embedding.segment
///   (segments, d) embedding.norm.gamma, .beta (d)   relative_bias (buckets, heads) layer.L.query_key_value.weight (2 h
///   d_k + h d_v, d): rows of q, then k, then v, each head by head; .bias layer.L.output.weight (d, h d_v or d_v),
///   .bias          layer.L.attention_norm.gamma, .beta (d) layer.L.up.weight (feed_forward, d), .bias
///   layer.L.down.weight (d, feed_forward), .bias layer.L.feed_forward_norm.gamma, .beta (d) final_norm.gamma, .beta
///   (d; pre-LN) classifier.hidden.weight (d, d), .bias                  classifier.weight (classes, d or 2 d), .bias
std::vector<parameter> parameters_of(const transformer_config& config);

template <class T>
class transformer;

namespace detail {

// How passes see a model and a record (lib/src/model).
struct parameter_places;
template <class T>
struct kept_arrays;
template <class T>
struct pass_plan;
template <class T>
const parameter_places& places_of(const transformer<T>& model);

}  // namespace detail

template <class T>
class transformer {
 public:
  /// Parameters with no defined content.
  transformer(context& ctx, const transformer_config& config);

  const transformer_config& config() const { return config_; }
  const std::vector<parameter>& parameters() const { return parameters_; }

  /// All parameters, one after the other.
  tensor<T>& values() { return values_; }
  const tensor<T>& values() const { return values_; }

  /// One parameter as a matrix (a vector is (1, n)), or as a vector. Throws invalid_argument if there is none of that
  /// name; an absent view from the `optional_` ones.
  view<const T, 2> matrix(std::string_view name) const;
  view<const T, 1> vector(std::string_view name) const;

  /// Embeddings normal(0, 1) as in Bhardwaj et al., or normal(0, 0.02) as in BERT; linear layers uniform within
  /// 1 / sqrt(inputs), so that attention begins soft, or normal(0, 0.02); norms 1 and 0; biases 0. Depends on the seed
  /// alone.
  enum class initialisation { bhardwaj, bert };
  void initialise(context& ctx, std::uint64_t seed, initialisation kind = initialisation::bhardwaj);

 private:
  friend const detail::parameter_places& detail::places_of<T>(const transformer& model);

  transformer_config config_;
  std::vector<parameter> parameters_;
  std::shared_ptr<const detail::parameter_places> places_;
  tensor<T> values_;
};

/// Sequences of ids, padded to the longest, on the device. With config.pairs, sequences 2 i and 2 i + 1 are a pair.
class token_batch {
 public:
  struct sequence {
    std::vector<std::int32_t> ids;
    std::vector<std::int32_t> segments = {};  ///< as many as ids, or none: all 0
  };

  /// Throws invalid_argument: an empty batch or sequence, an id or segment out of range, a sequence that is too long
  /// for the model (with its index, its length and the limit).
  token_batch(context& ctx, const transformer_config& config, std::span<const sequence> sequences);

  std::int64_t size() const { return static_cast<std::int64_t>(lengths_host_.size()); }
  std::int64_t tokens() const { return longest_; }
  const std::vector<std::int64_t>& lengths() const { return lengths_host_; }
  view<const std::int32_t, 2> ids() const { return ids_; }
  view<const std::int32_t, 2> segments() const { return segments_; }  ///< absent if the model has none
  view<const std::int64_t, 1> device_lengths() const { return lengths_; }

 private:
  std::int64_t longest_ = 0;
  std::vector<std::int64_t> lengths_host_;
  tensor<std::int32_t> ids_, segments_;
  tensor<std::int64_t> lengths_;
};

/// What a forward pass keeps for later.
enum class keep {
  heads,            ///< q, k, v, attended and log_sum_exp of every layer
  backward,         ///< all that `backward` needs
  pooled_backward,  ///< what `backward` needs from logits or pooled alone: the last layer works on one token per
                    ///< sequence
};

/// Memory for what is kept of a batch of this shape; reusable for batches that are not larger.
template <class T>
class forward_record {
 public:
  /// With `recompute`, only what enters each layer is kept for backward; the rest is computed again.
  forward_record(context& ctx, const transformer_config& config, std::int64_t batch, std::int64_t tokens, keep what,
                 bool recompute = false);

  std::int64_t bytes() const { return memory_.size() * static_cast<std::int64_t>(sizeof(T)); }
  keep what() const { return what_; }
  bool recomputes() const { return recompute_; }

 private:
  friend struct detail::pass_plan<T>;

  /// For a batch of this shape; throws invalid_argument if it does not fit.
  detail::kept_arrays<T> arrays(std::int64_t batch, std::int64_t tokens);

  transformer_config config_;
  std::int64_t batch_, tokens_;
  std::int64_t filled_batch_ = 0, filled_tokens_ = 0;  // of the last forward pass
  keep what_;
  bool recompute_;
  tensor<T> memory_;
};

/// Where results go; those without data are not computed. If only logits or pooled are asked for, the last layer works
/// on the pooled token alone.
template <class T>
struct forward_results {
  view<T, 4> hidden = {};        ///< (layers + 1, batch, S, d)
  view<T, 3> embedded = {};      ///< (batch, S, d): sum of the embeddings, before any norm
  view<T, 2> pooled = {};        ///< (batch, d): what the classifier reads
  view<T, 2> logits = {};        ///< (batch, classes); (batch / 2, classes) with pairs
  view<T, 3> token_logits = {};  ///< (batch, S, vocabulary): language models
};

template <class T>
struct forward_options {
  forward_record<T>* record = nullptr;  ///< kept for `backward` or for analysis
  bool training = false;                ///< dropout is on
  random_stream dropout = {};           ///< one stream per step
  view<const T, 3> inputs = {};  ///< (batch, S, d): instead of the sum of the embeddings (attribution, baselines)

  /// (parameters): `rounded_values` of a float model. The products and the attention of the layers then take factors
  /// rounded to bfloat16, with sums in float, on the matrix engine if there is one; results differ by some 2^-8 of
  /// their size. What a layer computes for the pooled token alone stays in float. Not for a pass that `backward`
  /// follows.
  view<const bfloat16, 1> rounded_values = {};
};

/// The parameters of a model, rounded to bfloat16, for forward_options. Waits.
tensor<bfloat16> rounded_values(context& ctx, const transformer<float>& model);

sycl::event forward(context& ctx, const transformer<float>& model, const token_batch& batch,
                    const forward_results<float>& results, const forward_options<float>& options = {},
                    const events& dependencies = {});
sycl::event forward(context& ctx, const transformer<double>& model, const token_batch& batch,
                    const forward_results<double>& results, const forward_options<double>& options = {},
                    const events& dependencies = {});

/// Gradients that enter a backward pass: any of them.
template <class T>
struct backward_operands {
  view<const T, 2> d_logits = {};        ///< as the logits
  view<const T, 3> d_last_hidden = {};   ///< (batch, S, d): of the last hidden state
  view<const T, 2> d_pooled = {};        ///< (batch, d)
  view<const T, 3> d_token_logits = {};  ///< (batch, S, vocabulary)
};
template <class T>
struct backward_results {
  view<T, 1> d_parameters = {};  ///< flat, as transformer::values; added to what is there
  view<T, 3> d_inputs = {};      ///< (batch, S, d): of the sum of the embeddings; overwritten
};

/// The backward pass of the `forward` that filled options.record, with the same model, batch and options.
sycl::event backward(context& ctx, const transformer<float>& model, const token_batch& batch,
                     const backward_operands<float>& operands, const backward_results<float>& results,
                     const forward_options<float>& options, const events& dependencies = {});
sycl::event backward(context& ctx, const transformer<double>& model, const token_batch& batch,
                     const backward_operands<double>& operands, const backward_results<double>& results,
                     const forward_options<double>& options, const events& dependencies = {});

}  // namespace nullscope

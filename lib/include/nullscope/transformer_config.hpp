/// What a transformer looks like: a plain description that determines every parameter and its shape.
#pragma once

#include <cstdint>
#include <nullscope/layers.hpp>

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

}  // namespace nullscope

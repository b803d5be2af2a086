/// Raw, effective and null attention of a whole model that reads texts (Brunner et al. 2020, sections 3.4, 3.5, A.2):
/// for every head of every layer its numbers for each text, and the averages between classes of tokens over all texts.
///
///   model_attention<float> attention(ctx, model, 4);                 // four classes of tokens
///   const auto numbers = attention.add(ctx, texts);                  // each text with the classes of its tokens
///   const class_averages averages = attention.averages();
///
/// Head h of layer l, both from 0, is number l * heads + h. Texts of different lengths may come together: they are read
/// in batches of similar lengths, and the padding of a batch never enters T, attention or an average. Memory does not
/// grow with the number of texts.
///
/// Decoders are analysed by rows (effective_attention_by_rows.hpp), encoders with all of T, unless the options say
/// otherwise.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nullscope/context.hpp>
#include <nullscope/transformer.hpp>
#include <optional>
#include <span>
#include <vector>

namespace nullscope {

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
  void analyse(context& ctx, const forward_views<T>& kept, std::int64_t sequence, text_results& to);

  const transformer<T>& model_;
  std::int64_t classes_, heads_;
  model_attention_options options_;
  bool by_rows_;
  std::unique_ptr<detail::gathered_heads<T>> gathered_;  // made for the longest text so far
  std::unique_ptr<detail::attention_sums> heads_sums_, rollout_sums_;
};

}  // namespace nullscope

/// The model that is explained, and the text: what every method of <nullscope/explanations.hpp> asks.
///
///   const explained_model model = explained_transformer(ctx, classifier);
///   const explained_model mine{.classes = 1, .logits = [](auto sequences) { ... }};   // any other callable
#pragma once

#include <cstdint>
#include <functional>
#include <nullscope/context.hpp>
#include <nullscope/transformer.hpp>
#include <span>
#include <vector>

namespace nullscope {

using token_sequence = std::vector<std::int32_t>;

/// The logits (sequences, classes) of sequences of ids; with one class, log-odds.
using score_function = std::function<std::vector<double>(std::span<const token_sequence>)>;

/// Gradients of sum_c d_logits_c logit_c on the line from the embeddings of `baseline` (share 0) to those of `ids`
/// (share 1).
struct gradient_request {
  token_sequence ids, baseline;  ///< equally long
  std::vector<double> d_logits;  ///< (classes)
  std::vector<double> shares;    ///< (points)
};
struct gradient_answer {            ///< (points, tokens) each
  std::vector<double> norm;         ///< |g|
  std::vector<double> along_token;  ///< <g, embedding of the token>
  std::vector<double> along_path;   ///< <g, input - baseline>
};
using gradient_function = std::function<gradient_answer(const gradient_request&)>;

struct explained_model {
  std::int64_t classes = 2;
  score_function logits;
  gradient_function gradients = {};  ///< only for methods by gradients
  double noise = 1e-11;              ///< relative error of the logits: 1e-5 for a model in float
};

struct explained_options {
  std::int64_t batch_tokens = 8192;  ///< computed at once
};

/// A classifier of this library. Sequences are computed in batches of similar length. `ctx` and `model` must outlive
/// the result. Throws invalid_argument if the model has no classifier, or is one for pairs of sequences.
explained_model explained_transformer(context& ctx, const transformer<float>& model,
                                      const explained_options& options = {});
explained_model explained_transformer(context& ctx, const transformer<double>& model,
                                      const explained_options& options = {});

/// A text, as the model reads it.
struct explained_text {
  token_sequence ids;
  std::vector<std::uint8_t> special = {};  ///< 1 where a token is part of every query ([CLS], [SEP]); empty: none
  token_sequence empty = {};  ///< what the model reads if no token is left and there are no special ones; default: the
                              ///< score of such a text is 0
};

/// What methods explain: the log-odds of a class against the other one; with more than two classes its logit minus the
/// mean of all; with one class the logit itself.
double score_of_class(std::span<const double> logits, std::int64_t of_class);

/// The class with the largest logit; 0 with one class.
std::int64_t predicted_class(std::span<const double> logits);

/// The probability of a class: softmax of the logits; with one class their logistic function.
double probability_of_class(std::span<const double> logits, std::int64_t of_class);

}  // namespace nullscope

/// The model that is explained, and the text: what every method of <nullscope/explain/explanations.hpp> asks.
///
///   const explained_model model = explained_transformer(ctx, classifier);
///   const explained_model mine{.classes = 1, .logits = [](auto sequences) { ... }};   // any other callable
#pragma once

#include <cstdint>
#include <functional>
#include <nullscope/core/context.hpp>
#include <nullscope/explain/slalom.hpp>
#include <nullscope/model/transformer.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
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

// Explanations of a classifier's score for a text, token by token: SLALOM and its baselines behind one function.
//
//   const explained_model model = explained_transformer(ctx, classifier);
//   const explanation found = explain(ctx, model, {&text, 1}, {.method = explanation_method::slalom})[0];
//   // found.attribution[i], found.slalom.value[i], found.slalom.importance[i] of token i
//
// Many texts at once fill the device: their queries are computed together, and so are their fits. Absence of a token
// means deletion. The same model, texts, options and seed give the same bits.

enum class explanation_method {
  slalom,                ///< attribution: the linearised score v exp(s)
  lime,                  ///< coefficients of a ridge regression on deletions, weighted by their similarity to the text
  shap,                  ///< Kernel SHAP: Shapley values by weighted least squares over coalitions of tokens
  linear,                ///< coefficients of a linear regression on texts with few deletions
  additive,              ///< the same with a coefficient for each token at each position (a GAM), and a lasso penalty
  gradient,              ///< norm of the gradient by the token's embedding: never negative
  gradient_times_input,  ///< inner product of gradient and embedding
  integrated_gradients   ///< the gradient along the line from a baseline, times the way
};

std::string_view to_string(explanation_method method);
/// Throws invalid_argument with the names that there are.
explanation_method explanation_method_named(std::string_view name);

/// What has parameters of its own: each id, or each place of the text.
enum class token_identity { by_id, by_place };

/// The texts that a surrogate is fitted to.
enum class query_kind {
  short_sequences,  ///< of `length` tokens: any, if tokens are ids; different places in the text's order otherwise
  deletions         ///< the text without 0 to `most_deleted` of its tokens
};

enum class slalom_fit_kind { least_squares, sgd, analytic };

struct explain_options {
  explanation_method method = explanation_method::slalom;
  std::optional<std::int64_t> of_class = std::nullopt;  ///< default: the predicted one, text by text
  std::int64_t samples = 5000;                          ///< queries per text; all of them if there are fewer
  std::uint64_t seed = 1;

  /// Default: tokens are ids for SLALOM, places of the text otherwise. Occurrences of an id share what LIME, SHAP and
  /// linear regression find for it. Additive: always places.
  std::optional<token_identity> identity = std::nullopt;

  query_kind kind = query_kind::short_sequences;  ///< SLALOM
  std::int64_t length = 2;                        ///< of short sequences
  std::int64_t most_deleted = 5;                  ///< in deletions, also for linear and additive
  slalom_fit_kind fit = slalom_fit_kind::least_squares;
  slalom_options slalom = {};

  double kernel_width = 25, ridge = 1;  ///< LIME
  double lasso = 0.01;                  ///< additive: as a share of the penalty that leaves no coefficient
  std::int32_t baseline_id = 0;         ///< integrated gradients: in the place of every token
  std::int64_t steps = 32;              ///< integrated gradients: points of a Gauss-Legendre rule
};

struct explanation {
  std::int64_t of_class = 0;
  double score = 0;  ///< of the text, as score_of_class gives it
  /// What a text without tokens scores: by the model (SHAP), the intercept (LIME, linear, additive), of the baseline
  /// (integrated gradients). NaN for others.
  double base = 0;
  std::vector<double> attribution;  ///< (tokens of the text); 0 for special tokens

  /// Mean squared error of the surrogate on its queries; the squared gap of integrated gradients to score - base; NaN
  /// for gradients.
  double fit_error = 0;
  std::int64_t queries = 0;  ///< that were computed: each different one once

  slalom_scores slalom;            ///< only of SLALOM: (tokens of the text), NaN for special tokens
  std::vector<std::string> notes;  ///< what does not hold: importances that the scores do not determine, for instance
};

/// Explains every text. Throws invalid_argument (a text without tokens, a class that the model does not have, a method
/// by gradients for a model that gives none, options out of range), computation_error with the texts whose scores are
/// not finite, and what the model throws.
std::vector<explanation> explain(context& ctx, const explained_model& model, std::span<const explained_text> texts,
                                 const explain_options& options = {});

// How good explanations are: what happens to the model's score when tokens go, and agreement with other sources. Host
// code; the model is asked for many texts at once.

/// The probability of the explained class while tokens are deleted, or inserted, in the order of their attribution.
struct perturbation_curves {
  std::vector<double> share;                ///< of the tokens that were deleted or inserted: 0 to 1
  std::vector<double> deletion, insertion;  ///< probability at each share; deletion[0] is that of the text
  double deletion_area = 0;   ///< AOPC: mean over the shares above 0 of p(text) - p(rest); larger is better
  double insertion_area = 0;  ///< the same for the tokens inserted so far; smaller is better
};

struct curve_options {
  std::int64_t points = 20;  ///< shares above 0, evenly spread; every token if there are fewer
};

/// Curves of every text; found[i] explains texts[i]. The token with the highest attribution goes first; of equal ones,
/// the one that comes first in the text. Special tokens stay.
std::vector<perturbation_curves> perturbation_curves_of(const explained_model& model,
                                                        std::span<const explained_text> texts,
                                                        std::span<const explanation> found,
                                                        const curve_options& options = {});

struct fidelity_options {
  std::int64_t samples = 100;      ///< deletions per text
  std::int64_t most_deleted = 10;  ///< 1 to so many tokens are deleted, at most all but one
  std::uint64_t seed = 77;         ///< other deletions than those that a surrogate was fitted to
};

/// The mean squared error with which an explanation predicts by how much the score changes when tokens are deleted, for
/// every text. SLALOM predicts by its formula, all others by the sum of the attributions that are gone.
std::vector<double> fidelity(const explained_model& model, std::span<const explained_text> texts,
                             std::span<const explanation> found, const fidelity_options& options = {});

/// Weights of a Naive Bayes classifier that counts words: log of (occurrences in the class + smoothing) over
/// (occurrences in the others + smoothing).
std::unordered_map<std::int32_t, double> naive_bayes(std::span<const explained_text> texts,
                                                     std::span<const std::int64_t> classes, std::int64_t of_class,
                                                     double smoothing = 40);

/// Spearman's rank correlation, ties with their mean rank. NaN if there are fewer than two numbers or all of a are
/// equal, or all of b. Throws invalid_argument if the lengths differ.
double rank_correlation(std::span<const double> a, std::span<const double> b);

/// The area under the ROC curve of scores for what is marked, ties counting half. NaN if nothing or all is marked.
double area_under_roc(std::span<const double> scores, std::span<const std::uint8_t> marked);

/// Mean of numbers and its standard error, without those that are NaN.
struct mean_and_error {
  double mean = 0, error = 0;  ///< NaN if there are no numbers, or only one
  std::int64_t count = 0;
};
mean_and_error mean_of(std::span<const double> numbers);

/// The mean of curves at the shares 0, 1 / points, ..., 1; a curve counts with its last point up to there.
perturbation_curves mean_curves(std::span<const perturbation_curves> curves, std::int64_t points = 20);

/// A text with what is known about it.
struct measured_text {
  explained_text text;
  std::int64_t of_class = 0;
  std::vector<std::uint8_t> marked = {};  ///< by people, for each token; empty if nobody has
};

/// How faithful a method is, or one of SLALOM's scores. NaN where a text has no such number.
struct measured_method {
  std::string name;
  std::vector<perturbation_curves> curves;  ///< of each text
  std::vector<double> deletion, insertion;  ///< areas, of each text
  std::vector<double> naive_bayes;          ///< of each text: rank correlation with the weights of `naive_bayes`
  std::vector<double> roc;                  ///< of each text: area for the marks
  std::vector<double> fidelity;             ///< of each text; empty for SLALOM's single scores
  double seconds = 0;                       ///< per text
};

struct faithfulness_options {
  std::vector<explanation_method> methods = {explanation_method::slalom};
  explain_options explain = {};  ///< of all methods
  curve_options curves = {};
  fidelity_options fidelity = {};
  std::function<void(explanation_method)> progress = {};  ///< called after each method
};

/// Explains the texts by every method and measures. `others` are counted by Naive Bayes. SLALOM gives three results:
/// v exp(s), v and s.
std::vector<measured_method> measure_faithfulness(context& ctx, const explained_model& model,
                                                  std::span<const measured_text> texts,
                                                  std::span<const measured_text> others,
                                                  const faithfulness_options& options);

}  // namespace nullscope

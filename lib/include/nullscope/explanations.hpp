/// Explanations of a classifier's score for a text, token by token: SLALOM and its baselines behind one function.
///
///   const explained_model model = explained_transformer(ctx, classifier);
///   const explanation found = explain(ctx, model, {&text, 1}, {.method = explanation_method::slalom})[0];
///   // found.attribution[i], found.slalom.value[i], found.slalom.importance[i] of token i
///
/// Many texts at once fill the device: their queries are computed together, and so are their fits. Absence of a token
/// means deletion. The same model, texts, options and seed give the same bits.
#pragma once

#include <cstdint>
#include <nullscope/context.hpp>
#include <nullscope/explained_model.hpp>
#include <nullscope/query_sampling.hpp>
#include <nullscope/slalom.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nullscope {

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

}  // namespace nullscope

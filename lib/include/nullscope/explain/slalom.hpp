/// SLALOM, the Softmax-Linked Additive Log-Odds Model (Leemann et al. 2024): a surrogate that transformers can
/// represent. Token t has an importance s(t) and a value v(t), and a sequence scores
///
///   F(t_1, ..., t_n) = sum_i alpha_i v(t_i),   alpha_i = exp(s(t_i)) / sum_j exp(s(t_j)).
///
/// Only differences of importances count, so their sum is fixed. With several classes, importances are shared and each
/// class has values of its own; if the targets of a query sum to 0 over the classes, so do the values of a token.
///
///   slalom_queries queries(5);                       // over five tokens
///   queries.add({{0, 3}}); ...                       // the tokens of a query; the score of each goes to `targets`
///   const slalom_model model = fit_slalom(ctx, {&queries, 1})[0];
///
/// Fits run on the device, one work-group per fit: many fits at once use all of it. They compute in double where the
/// device has it. The same input gives the same bits.
#pragma once

#include <cstdint>
#include <nullscope/core/context.hpp>
#include <span>
#include <vector>

namespace nullscope {

/// Queries and their scores: what one fit learns from.
struct slalom_queries {
  explicit slalom_queries(std::int64_t token_count = 0, std::int64_t class_count = 1)
      : tokens(token_count), classes(class_count) {}

  std::int64_t tokens;                 ///< different tokens, numbered from 0
  std::int64_t classes;                ///< scores per query: 1 for a log-odds
  std::vector<std::int64_t> begin{0};  ///< (queries + 1): the entries of query i are begin[i] to begin[i + 1] - 1
  std::vector<std::int32_t> token;     ///< (entries), ascending within a query
  std::vector<double> count;           ///< (entries): how often the token occurs in the query
  std::vector<double> weight;          ///< (queries): how often the query counts
  std::vector<double> targets;         ///< (queries, classes)

  std::int64_t size() const { return static_cast<std::int64_t>(weight.size()); }

  /// A query with these tokens, in any order. Its targets are the caller's to append.
  void add(std::span<const std::int32_t> query, double how_often = 1);
};

enum class slalom_method {
  least_squares,  ///< Levenberg-Marquardt over the importances; the values follow each of them (variable projection)
  sgd             ///< Adam on random minibatches, Leemann et al., algorithm 1
};

struct slalom_options {
  slalom_method method = slalom_method::least_squares;
  double sum = 0;        ///< of the importances
  bool errors = true;    ///< also standard errors (least squares only)
  double noise = 1e-11;  ///< relative error of the targets; what is not above it does not identify an importance

  std::int64_t iterations = 100;  ///< least squares: at most so many
  double tolerance = 1e-10;       ///< least squares: done when the error falls by a smaller share, or no step is larger

  std::int64_t batch = 128, epochs = 60;  ///< SGD: queries per step; steps are epochs times weight / batch
  double learning_rate = 5e-3;
  std::uint64_t seed = 1;
};

struct slalom_model {
  std::int64_t classes = 1;
  std::vector<double> importance;  ///< (tokens)
  std::vector<double> value;       ///< (classes, tokens)

  /// Standard errors by the sandwich estimate, and covariances of value and importance of a token. Infinity where the
  /// queries say nothing about a parameter, NaN if there are no more equations than unknowns. Empty if not computed.
  std::vector<double> importance_error, value_error, covariance;

  double mean_squared_error = 0;  ///< over queries and classes, weighted
  std::int64_t iterations = 0;
  bool converged = true;

  /// Whether there are at least as many equations as unknowns. Pairs of different tokens alone need five tokens.
  bool has_enough_queries = true;
  /// Tokens whose importance the scores do not determine: all of them if the model is constant.
  std::vector<std::int32_t> without_importance;

  std::int64_t tokens() const { return static_cast<std::int64_t>(importance.size()); }
};

/// Fits every problem. Throws invalid_argument (no token or query, sizes that do not agree, a token out of range or
/// twice in a query, counts or weights that are not positive) and computation_error with the ids of the problems whose
/// targets are not finite.
std::vector<slalom_model> fit_slalom(context& ctx, std::span<const slalom_queries> problems,
                                     const slalom_options& options = {});

/// The scores (queries, classes) of a model.
std::vector<double> predict(const slalom_model& model, const slalom_queries& queries);

/// The mean squared error of a model's scores, weighted.
double mean_squared_error(const slalom_model& model, const slalom_queries& queries);

/// The analytic fit: 2 tokens - 1 queries. `single` (tokens, classes) are the scores of each token alone, `pairs`
/// (tokens, classes) those of [reference, token], whose row `reference` is not read. exp(s(t) - s(reference)) =
/// (F - v(reference)) / (v(t) - F); a ratio that no SLALOM has gives an importance at the end of the range +-20.
slalom_model analytic_slalom(std::span<const double> single, std::span<const double> pairs, std::int64_t classes,
                             std::int32_t reference, double sum = 0);

/// The reference whose values differ most from those of the token that is closest to it.
std::int32_t best_reference(std::span<const double> single, std::int64_t classes);

/// What a model says about the tokens of one text, and about one class.
struct slalom_scores {
  std::vector<double> value, importance;
  std::vector<double> linearised;  ///< v exp(s): the paper's score for ranking
  std::vector<double> derivative;  ///< alpha (v - F): of F by the presence of the token
  std::vector<double> removal;     ///< F minus F without the token: alpha (v - F) / (1 - alpha)
  std::vector<double> value_error, importance_error, linearised_error;  ///< empty if the model has none
};

/// `text` holds the model's token at each place. A text of one token has removal NaN: nothing would be left.
slalom_scores scores_of(const slalom_model& model, std::span<const std::int32_t> text, std::int64_t of_class = 0);

// Linear surrogates: weighted least squares with a ridge or a lasso penalty, for many small problems at once.
//
//   minimise sum_i weight_i (target_i - intercept - row_i w)^2 + ridge |w|_2^2 + 2 (sum_i weight_i) lasso |w|_1
//
// which is scikit-learn's Ridge(alpha = ridge), or Lasso(alpha = lasso) for weights of 1. A feature that depends on
// those before it gets the coefficient 0. One work-group per problem, in double where the device has it.

struct linear_samples {
  std::int64_t features = 0;
  std::vector<double> rows = {};     ///< (samples, features)
  std::vector<double> targets = {};  ///< (samples)
  std::vector<double> weights = {};  ///< (samples); empty: all 1

  std::int64_t size() const { return static_cast<std::int64_t>(targets.size()); }
};

struct linear_fit_options {
  double ridge = 0, lasso = 0;
  bool intercept = true;        ///< without a penalty
  std::int64_t sweeps = 10000;  ///< lasso: at most so many passes over the features
  double tolerance = 1e-10;     ///< lasso: a sweep that changes nothing by more than this share of the largest ends it
};

struct linear_surrogate {
  std::vector<double> coefficients;  ///< (features)
  double intercept = 0;
  double mean_squared_error = 0;  ///< of the samples, weighted
};

/// Throws invalid_argument (no samples or features, sizes that do not agree, negative penalties or weights),
/// computation_error with the problems whose numbers are not finite.
std::vector<linear_surrogate> fit_linear(context& ctx, std::span<const linear_samples> problems,
                                         const linear_fit_options& options = {});

/// The model's prediction for each row.
std::vector<double> predict(const linear_surrogate& model, const linear_samples& samples);

}  // namespace nullscope

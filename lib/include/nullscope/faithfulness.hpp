/// How good explanations are: what happens to the model's score when tokens go, and agreement with other sources. Host
/// code; the model is asked for many texts at once.
#pragma once

#include <cstdint>
#include <nullscope/explanations.hpp>
#include <span>
#include <unordered_map>
#include <vector>

namespace nullscope {

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

}  // namespace nullscope

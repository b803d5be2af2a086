/// Coalitions: which tokens of a text are present. What LIME and Kernel SHAP ask the model, and with what weights.
#pragma once

#include <cstdint>
#include <nullscope/explain/slalom.hpp>
#include <vector>

namespace nullscope::detail {

struct coalitions {
  std::int64_t players = 0;
  std::vector<std::vector<std::uint8_t>> present;  // each coalition once
  std::vector<double> weight;
};

/// LIME's: the whole, then random numbers of random players left out. The weight falls with the distance from the
/// whole, 100 (1 - cosine), as exp(-distance^2 / (2 width^2)).
coalitions lime_coalitions(std::int64_t players, std::int64_t samples, double width, std::uint64_t seed);

/// Kernel SHAP's: all but the empty and the full one if there are not more than `samples`; otherwise all of the
/// smallest and largest sizes for which there is room, and random ones of the others, each with its complement.
coalitions shap_coalitions(std::int64_t players, std::int64_t samples, std::uint64_t seed);

/// The least squares whose solution, with the last player's share completing the sum, are the Shapley values of scores
/// that begin at `none` and end at `all`.
linear_samples shap_equations(const coalitions& chosen, std::span<const double> scores, double none, double all);

}  // namespace nullscope::detail

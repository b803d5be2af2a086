/// Linear surrogates: weighted least squares with a ridge or a lasso penalty, for many small problems at once.
///
///   minimise sum_i weight_i (target_i - intercept - row_i w)^2 + ridge |w|_2^2 + 2 (sum_i weight_i) lasso |w|_1
///
/// which is scikit-learn's Ridge(alpha = ridge), or Lasso(alpha = lasso) for weights of 1. A feature that depends on
/// those before it gets the coefficient 0. One work-group per problem, in double where the device has it.
#pragma once

#include <cstdint>
#include <nullscope/context.hpp>
#include <span>
#include <vector>

namespace nullscope {

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

#include <cmath>
#include <nullscope/explain/slalom.hpp>
#include <nullscope/structure/model_structure.hpp>

#include "bench/check/operations.hpp"

namespace nullscope::check_device {
namespace {

/// A planted SLALOM is found again from its own scores.
outcome check_slalom(context& ctx) {
  constexpr std::int32_t tokens = 6;
  slalom_model planted;
  planted.importance = {0.5, -0.5, 1.0, -1.0, 0.25, -0.25};
  planted.value = {1, -2, 0.5, 3, -1, 0.25};
  slalom_queries queries(tokens);
  for (std::int32_t a = 0; a < tokens; ++a) {
    queries.add(std::vector<std::int32_t>{a});
    for (std::int32_t b = a + 1; b < tokens; ++b) queries.add(std::vector<std::int32_t>{a, b});
  }
  queries.targets = predict(planted, queries);
  const slalom_model found = fit_slalom(ctx, {&queries, 1})[0];
  double difference = 0;
  for (std::size_t i = 0; i < planted.value.size(); ++i) {
    difference = worse(difference, std::abs(found.value[i] - planted.value[i]));
    difference = worse(difference, std::abs(found.importance[i] - planted.importance[i]));
  }
  return {difference, 1e-3};  // the device may have single precision alone
}

outcome check_linear_fit(context& ctx) {
  linear_samples samples;
  samples.features = 3;
  samples.rows = random_numbers<double>(40 * 3, 51);
  for (std::size_t i = 0; i < 40; ++i) {
    const double* const row = samples.rows.data() + 3 * i;
    samples.targets.push_back(2 * row[0] - row[1] + 0.5 * row[2] + 3);
  }
  const linear_surrogate found = fit_linear(ctx, {&samples, 1})[0];
  const numbers planted{2, -1, 0.5};
  double difference = std::abs(found.intercept - 3);
  for (std::size_t i = 0; i < planted.size(); ++i) {
    difference = worse(difference, std::abs(found.coefficients[i] - planted[i]));
  }
  return {difference, 1e-4};
}

/// The assignment is that to the nearest centroid.
outcome check_k_means(context& ctx) {
  constexpr std::int64_t count = 200, d = 5, clusters = 4;
  const random_operand<float> x(ctx, {count, d}, 52);
  const k_means_result found = k_means(ctx, x.device, {.clusters = clusters});
  double excess = 0;  // of the distance to the assigned centroid over that to the nearest one
  for (std::int64_t i = 0; i < count; ++i) {
    numbers squares(clusters);
    for (std::int64_t c = 0; c < clusters; ++c) {
      for (std::int64_t j = 0; j < d; ++j) {
        const double difference =
            x.host[static_cast<std::size_t>(i * d + j)] - found.centroids[static_cast<std::size_t>(c * d + j)];
        squares[static_cast<std::size_t>(c)] += difference * difference;
      }
    }
    const double nearest = *std::min_element(squares.begin(), squares.end());
    excess = worse(excess, squares[static_cast<std::size_t>(found.assignment[static_cast<std::size_t>(i)])] - nearest);
  }
  return {excess, 1e-4};
}

}  // namespace

checked_operations surrogate_operations() {
  return {{"SLALOM fit", "", check_slalom}, {"linear fit", "", check_linear_fit}, {"k-means", "f32", check_k_means}};
}

}  // namespace nullscope::check_device

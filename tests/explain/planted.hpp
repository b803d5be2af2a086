/// SLALOMs with known parameters, queries of them, and a plain reference of the least-squares problem.
#pragma once

#include <cmath>
#include <nullscope/explain/slalom.hpp>
#include <nullscope/linalg/random.hpp>
#include <vector>

namespace nullscope::test {

/// Importances between -1.5 and 1.5 that sum to 0, values between -2 and 2; with several classes they sum to 0.
inline slalom_model planted_slalom(std::int64_t tokens, std::int64_t classes, std::uint64_t seed) {
  slalom_model model;
  model.classes = classes;
  double sum = 0;
  for (std::int64_t j = 0; j < tokens; ++j) {
    model.importance.push_back(3 * uniform_at<double>({seed, 1}, j) - 1.5);
    sum += model.importance.back();
  }
  for (double& s : model.importance) s -= sum / static_cast<double>(tokens);
  for (std::int64_t i = 0; i < classes * tokens; ++i) {
    model.value.push_back(4 * uniform_at<double>({seed, 2}, i) - 2);
  }
  for (std::int64_t j = 0; classes > 1 && j < tokens; ++j) {
    double mean = 0;
    for (std::int64_t c = 0; c < classes; ++c) mean += model.value[static_cast<std::size_t>(c * tokens + j)];
    for (std::int64_t c = 0; c < classes; ++c) {
      model.value[static_cast<std::size_t>(c * tokens + j)] -= mean / static_cast<double>(classes);
    }
  }
  return model;
}

/// `count` random queries of `length` tokens, with repetitions; weights 1 to 3. No targets.
inline slalom_queries random_queries(std::int64_t tokens, std::int64_t classes, std::int64_t count, std::int64_t length,
                                     std::uint64_t seed) {
  slalom_queries queries(tokens, classes);
  for (std::int64_t i = 0; i < count; ++i) {
    std::vector<std::int32_t> query;
    for (std::int64_t k = 0; k < length; ++k) {
      query.push_back(
          static_cast<std::int32_t>(uniform_at<double>({seed, 3}, i * length + k) * static_cast<double>(tokens)));
    }
    queries.add(query, static_cast<double>(1 + i % 3));
  }
  return queries;
}

/// Texts of all tokens with up to `deletions` of them left out.
inline slalom_queries random_deletions(std::int64_t tokens, std::int64_t classes, std::int64_t count,
                                       std::int64_t deletions, std::uint64_t seed) {
  slalom_queries queries(tokens, classes);
  for (std::int64_t i = 0; i < count; ++i) {
    std::vector<bool> present(static_cast<std::size_t>(tokens), true);
    for (std::int64_t k = 0; k < deletions; ++k) {
      const double place = uniform_at<double>({seed, 4}, i * deletions + k) * static_cast<double>(tokens);
      present[static_cast<std::size_t>(place)] = false;
    }
    std::vector<std::int32_t> query;
    for (std::int32_t j = 0; j < tokens; ++j) {
      if (present[static_cast<std::size_t>(j)]) query.push_back(j);
    }
    queries.add(query);
  }
  return queries;
}

/// The targets are the scores of the model, plus noise.
inline slalom_queries with_targets(slalom_queries queries, const slalom_model& model, double noise = 0,
                                   std::uint64_t seed = 5) {
  queries.targets = predict(model, queries);
  for (std::size_t i = 0; noise > 0 && i < queries.targets.size(); ++i) {
    queries.targets[i] += noise * normal_at<double>({seed, 6}, static_cast<std::int64_t>(i));
  }
  return queries;
}

inline double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return INFINITY;
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = std::abs(a[i] - b[i]);
    if (!(d <= largest)) largest = d;  // NaN is the largest
  }
  return largest;
}

}  // namespace nullscope::test

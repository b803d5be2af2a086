/// What is done with a fitted SLALOM, and the analytic fit: a few operations per token, on the host.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nullscope/core/errors.hpp>
#include <nullscope/explain/slalom.hpp>
#include <numeric>

namespace nullscope {
namespace {

constexpr double largest_importance = 20;  // exp(-40) of a sum is below rounding

/// Moves the importances so that they have this sum.
void fix_sum(std::vector<double>& importance, double sum) {
  const double now = std::accumulate(importance.begin(), importance.end(), 0.0);
  for (double& s : importance) s += (sum - now) / static_cast<double>(importance.size());
}

}  // namespace

void slalom_queries::add(std::span<const std::int32_t> query, double how_often) {
  std::vector<std::int32_t> sorted(query.begin(), query.end());
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    if (i > 0 && sorted[i] == sorted[i - 1]) {
      ++count.back();
    } else {
      token.push_back(sorted[i]);
      count.push_back(1);
    }
  }
  begin.push_back(static_cast<std::int64_t>(token.size()));
  weight.push_back(how_often);
}

std::vector<double> predict(const slalom_model& model, const slalom_queries& queries) {
  if (model.tokens() != queries.tokens || model.classes != queries.classes) {
    throw invalid_argument(fmt::format("predict: the model has {} tokens and {} classes, the queries have {} and {}",
                                       model.tokens(), model.classes, queries.tokens, queries.classes));
  }
  std::vector<double> scores;
  scores.reserve(static_cast<std::size_t>(queries.size() * queries.classes));
  for (std::int64_t i = 0; i < queries.size(); ++i) {
    const auto first = static_cast<std::size_t>(queries.begin[static_cast<std::size_t>(i)]);
    const auto last = static_cast<std::size_t>(queries.begin[static_cast<std::size_t>(i) + 1]);
    double largest = -std::numeric_limits<double>::infinity(), total = 0;
    const auto s = [&](std::size_t e) { return model.importance[static_cast<std::size_t>(queries.token[e])]; };
    for (std::size_t e = first; e < last; ++e) largest = std::max(largest, s(e));
    for (std::size_t e = first; e < last; ++e) total += queries.count[e] * std::exp(s(e) - largest);
    for (std::int64_t c = 0; c < model.classes; ++c) {
      const double* const v = model.value.data() + c * model.tokens();
      double sum = 0;
      for (std::size_t e = first; e < last; ++e) {
        sum += queries.count[e] * std::exp(s(e) - largest) * v[queries.token[e]];
      }
      scores.push_back(sum / total);
    }
  }
  return scores;
}

double mean_squared_error(const slalom_model& model, const slalom_queries& queries) {
  const std::vector<double> scores = predict(model, queries);
  double sum = 0, weights = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const double weight = queries.weight[i / static_cast<std::size_t>(queries.classes)];
    sum += weight * (scores[i] - queries.targets[i]) * (scores[i] - queries.targets[i]);
    weights += weight;
  }
  return sum / weights;
}

std::int32_t best_reference(std::span<const double> single, std::int64_t classes) {
  const auto width = static_cast<std::size_t>(classes), tokens = single.size() / width;
  std::int32_t best = 0;
  double best_distance = -1;
  for (std::size_t t = 0; t < tokens; ++t) {
    double closest = std::numeric_limits<double>::infinity();
    for (std::size_t other = 0; other < tokens; ++other) {
      if (other == t) continue;
      double distance = 0;
      for (std::size_t c = 0; c < width; ++c) {
        distance += std::pow(single[t * width + c] - single[other * width + c], 2);
      }
      closest = std::min(closest, distance);
    }
    if (closest > best_distance) {
      best_distance = closest;
      best = static_cast<std::int32_t>(t);
    }
  }
  return best;
}

slalom_model analytic_slalom(std::span<const double> single, std::span<const double> pairs, std::int64_t classes,
                             std::int32_t reference, double sum) {
  const auto width = static_cast<std::size_t>(std::max<std::int64_t>(classes, 1)), tokens = single.size() / width;
  if (classes < 1 || tokens == 0 || single.size() != tokens * width || pairs.size() != single.size() || reference < 0 ||
      static_cast<std::size_t>(reference) >= tokens) {
    throw invalid_argument(
        fmt::format("analytic_slalom: {} single scores, {} pairs, {} classes and reference {}; "
                    "single and pairs should be (tokens, classes)",
                    single.size(), pairs.size(), classes, reference));
  }
  slalom_model model;
  model.classes = classes;
  model.importance.resize(tokens);
  model.value.resize(single.size());
  const auto from = static_cast<std::size_t>(reference);
  for (std::size_t t = 0; t < tokens; ++t) {
    double above = 0, below = 0, size = 0;  // (F - v(reference)) = ratio (v(t) - F), over the classes by least squares
    for (std::size_t c = 0; c < width; ++c) {
      const double v = single[t * width + c], f = pairs[t * width + c], base = single[from * width + c];
      model.value[c * tokens + t] = v;
      above += (f - base) * (v - f);
      below += (v - f) * (v - f);
      size += v * v + base * base;
    }
    if (t == from) continue;
    const double ratio = above / below;
    const bool is_constant = above * above + below * below <= 1e-24 * size * size;
    if (is_constant) {
      model.without_importance.push_back(static_cast<std::int32_t>(t));
    } else {
      model.importance[t] = std::isnan(ratio) || ratio <= 0
                                ? (std::abs(above) > below ? 1 : -1) * largest_importance
                                : std::clamp(std::log(ratio), -largest_importance, largest_importance);
    }
  }
  if (model.without_importance.size() + 1 == tokens) model.without_importance.push_back(reference);
  fix_sum(model.importance, sum);
  return model;
}

slalom_scores scores_of(const slalom_model& model, std::span<const std::int32_t> text, std::int64_t of_class) {
  if (of_class < 0 || of_class >= model.classes) {
    throw invalid_argument(fmt::format("scores_of: class {} of a model of {}", of_class, model.classes));
  }
  slalom_queries query(model.tokens(), model.classes);
  for (const std::int32_t t : text) {
    if (t < 0 || t >= model.tokens()) {
      throw invalid_argument(fmt::format("scores_of: token {} of a model with {}", t, model.tokens()));
    }
  }
  query.add(text);
  const double predicted = predict(model, query)[static_cast<std::size_t>(of_class)];
  double largest = -std::numeric_limits<double>::infinity(), total = 0;
  for (const std::int32_t t : text) largest = std::max(largest, model.importance[static_cast<std::size_t>(t)]);
  for (const std::int32_t t : text) total += std::exp(model.importance[static_cast<std::size_t>(t)] - largest);
  slalom_scores scores;
  for (const std::int32_t t : text) {
    const auto j = static_cast<std::size_t>(t), place = static_cast<std::size_t>(of_class * model.tokens()) + j;
    const double v = model.value[place], s = model.importance[j], alpha = std::exp(s - largest) / total;
    scores.value.push_back(v);
    scores.importance.push_back(s);
    scores.linearised.push_back(v * std::exp(s));
    scores.derivative.push_back(alpha * (v - predicted));
    scores.removal.push_back(text.size() == 1 ? std::numeric_limits<double>::quiet_NaN()
                                              : alpha * (v - predicted) / (1 - alpha));
    if (model.importance_error.empty()) continue;
    const double ev = model.value_error[place], es = model.importance_error[j];
    scores.value_error.push_back(ev);
    scores.importance_error.push_back(es);
    const double variance = ev * ev + v * v * es * es + 2 * v * model.covariance[place];
    scores.linearised_error.push_back(std::exp(s) * std::sqrt(variance < 0 ? 0 : variance));
  }
  return scores;
}

}  // namespace nullscope

#include <nullscope/explain/explanations.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nullscope/core/errors.hpp>
#include <numeric>

#include "lib/src/explain/explain_methods.hpp"
#include "lib/src/linalg/random_draws.hpp"

namespace nullscope {
namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

void check_sizes(const char* function, std::span<const explained_text> texts, std::span<const explanation> found) {
  if (texts.size() != found.size()) {
    throw invalid_argument(fmt::format("{}: {} texts with {} explanations", function, texts.size(), found.size()));
  }
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].ids.size() == found[i].attribution.size()) continue;
    throw invalid_argument(fmt::format("{}: text {} has {} tokens and {} attributions", function, i,
                                       texts[i].ids.size(), found[i].attribution.size()));
  }
}

/// Places of the tokens that can go, the highest attribution first.
std::vector<std::int32_t> ranking(const text_parameters& places, const explanation& found) {
  std::vector<std::int32_t> order;
  for (std::int32_t p = 0; p < places.count(); ++p) order.push_back(p);
  std::ranges::stable_sort(order, std::greater<>{}, [&](std::int32_t p) {
    return found.attribution[static_cast<std::size_t>(places.occurrences[static_cast<std::size_t>(p)][0])];
  });
  return order;
}

/// How many tokens have gone at each point: 0, then up to `points` numbers that end with all of them.
std::vector<std::int64_t> counts_of(std::int64_t tokens, std::int64_t points) {
  std::vector<std::int64_t> counts{0};
  const std::int64_t steps = std::min(points, tokens);
  for (std::int64_t k = 1; k <= steps; ++k) {
    const double share = static_cast<double>(k) / static_cast<double>(steps);
    counts.push_back(std::llround(share * static_cast<double>(tokens)));
  }
  return counts;
}

}  // namespace

std::vector<perturbation_curves> perturbation_curves_of(const explained_model& model,
                                                        std::span<const explained_text> texts,
                                                        std::span<const explanation> found,
                                                        const curve_options& options) {
  check_sizes("perturbation_curves_of", texts, found);
  if (options.points < 1) {
    throw invalid_argument(fmt::format("perturbation_curves_of: {} points; at least one is needed", options.points));
  }
  std::vector<std::vector<token_sequence>> sequences;
  std::vector<perturbation_curves> result;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const text_parameters places = parameters_of_text(texts[i], token_identity::by_place);
    const std::vector<std::int32_t> order = ranking(places, found[i]);
    const std::vector<std::int64_t> counts = counts_of(places.count(), options.points);
    sequences.emplace_back();
    result.emplace_back();
    for (const bool inserts : {false, true}) {
      for (const std::int64_t count : counts) {
        std::vector<std::uint8_t> present(order.size(), inserts ? 0 : 1);
        for (std::int64_t k = 0; k < count; ++k) {
          present[static_cast<std::size_t>(order[static_cast<std::size_t>(k)])] = inserts ? 1 : 0;
        }
        sequences.back().push_back(text_with(texts[i], places, present));
      }
    }
    for (const std::int64_t count : counts) {
      result.back().share.push_back(static_cast<double>(count) / static_cast<double>(places.count()));
    }
  }
  const auto logits = detail::scores_of_all(model, sequences);
  const auto classes = static_cast<std::size_t>(model.classes);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    perturbation_curves& curves = result[i];
    const std::size_t points = curves.share.size();
    for (std::size_t k = 0; k < 2 * points; ++k) {
      const double p = probability_of_class(std::span(logits[i]).subspan(k * classes, classes), found[i].of_class);
      (k < points ? curves.deletion : curves.insertion).push_back(p);
    }
    for (std::size_t k = 1; k < points; ++k) {
      curves.deletion_area += (curves.deletion[0] - curves.deletion[k]) / static_cast<double>(points - 1);
      curves.insertion_area += (curves.deletion[0] - curves.insertion[k]) / static_cast<double>(points - 1);
    }
  }
  return result;
}

std::vector<double> fidelity(const explained_model& model, std::span<const explained_text> texts,
                             std::span<const explanation> found, const fidelity_options& options) {
  check_sizes("fidelity", texts, found);
  if (options.samples < 1 || options.most_deleted < 1) {
    throw invalid_argument(
        fmt::format("fidelity: {} samples, {} deleted; both must be above 0", options.samples, options.most_deleted));
  }
  std::vector<std::vector<token_sequence>> sequences;
  std::vector<std::vector<double>> predicted;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const text_parameters places = parameters_of_text(texts[i], token_identity::by_place);
    detail::random_draws draws({options.seed, 5});
    const bool is_slalom = !found[i].slalom.value.empty();
    const std::int64_t most = std::min(options.most_deleted, places.count() - 1);
    sequences.emplace_back();
    predicted.emplace_back();
    for (std::int64_t k = 0; most > 0 && k < options.samples; ++k) {
      std::vector<std::uint8_t> present(static_cast<std::size_t>(places.count()), 1);
      for (const std::int32_t p : draws.subset(1 + draws.below(most), places.count())) {
        present[static_cast<std::size_t>(p)] = 0;
      }
      sequences.back().push_back(text_with(texts[i], places, present));
      double change = 0, sums[2][2] = {};  // of all tokens and of those left: sum of exp(s) v, and of exp(s)
      for (std::size_t p = 0; p < present.size(); ++p) {
        const auto place = static_cast<std::size_t>(places.occurrences[p][0]);
        if (is_slalom) {
          const double weight = std::exp(found[i].slalom.importance[place]);
          for (int left = 0; left <= (present[p] != 0 ? 1 : 0); ++left) {
            sums[left][0] += weight * found[i].slalom.value[place];
            sums[left][1] += weight;
          }
        } else if (present[p] == 0) {
          change -= found[i].attribution[place];
        }
      }
      predicted.back().push_back(is_slalom ? sums[1][0] / sums[1][1] - sums[0][0] / sums[0][1] : change);
    }
  }
  const auto logits = detail::scores_of_all(model, sequences);
  std::vector<double> result;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::vector<double> scores = detail::class_scores(model, logits[i], found[i].of_class);
    double sum = 0;
    for (std::size_t k = 0; k < scores.size(); ++k) {
      sum += std::pow(scores[k] - found[i].score - predicted[i][k], 2);
    }
    result.push_back(scores.empty() ? unknown : sum / static_cast<double>(scores.size()));
  }
  return result;
}

std::unordered_map<std::int32_t, double> naive_bayes(std::span<const explained_text> texts,
                                                     std::span<const std::int64_t> classes, std::int64_t of_class,
                                                     double smoothing) {
  if (texts.size() != classes.size()) {
    throw invalid_argument(fmt::format("naive_bayes: {} texts with {} classes", texts.size(), classes.size()));
  }
  std::unordered_map<std::int32_t, std::pair<double, double>> counts;  // in the class, in the others
  for (std::size_t i = 0; i < texts.size(); ++i) {
    for (std::size_t place = 0; place < texts[i].ids.size(); ++place) {
      if (!texts[i].special.empty() && texts[i].special[place] != 0) continue;
      auto& [inside, outside] = counts[texts[i].ids[place]];
      ++(classes[i] == of_class ? inside : outside);
    }
  }
  std::unordered_map<std::int32_t, double> weights;
  for (const auto& [id, count] : counts) {
    weights[id] = std::log((count.first + smoothing) / (count.second + smoothing));
  }
  return weights;
}

namespace {

/// 1 for the smallest; equal numbers share the mean of their ranks.
std::vector<double> ranks_of(std::span<const double> numbers) {
  std::vector<std::size_t> order(numbers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return numbers[i]; });
  std::vector<double> ranks(numbers.size());
  for (std::size_t first = 0; first < order.size();) {
    std::size_t last = first;
    while (last < order.size() && numbers[order[last]] == numbers[order[first]]) ++last;
    for (std::size_t k = first; k < last; ++k) ranks[order[k]] = 0.5 * static_cast<double>(first + last + 1);
    first = last;
  }
  return ranks;
}

bool has_nan(std::span<const double> numbers) {
  return std::ranges::any_of(numbers, [](double x) { return std::isnan(x); });
}

}  // namespace

double rank_correlation(std::span<const double> a, std::span<const double> b) {
  if (a.size() != b.size()) {
    throw invalid_argument(fmt::format("rank_correlation: {} numbers and {}", a.size(), b.size()));
  }
  if (a.size() < 2 || has_nan(a) || has_nan(b)) return unknown;
  const std::vector<double> x = ranks_of(a), y = ranks_of(b);
  const double mean = 0.5 * static_cast<double>(a.size() + 1);
  double xy = 0, xx = 0, yy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : unknown;
}

double area_under_roc(std::span<const double> scores, std::span<const std::uint8_t> marked) {
  if (scores.size() != marked.size()) {
    throw invalid_argument(fmt::format("area_under_roc: {} scores and {} marks", scores.size(), marked.size()));
  }
  if (has_nan(scores)) return unknown;
  const std::vector<double> ranks = ranks_of(scores);
  double sum = 0, count = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (marked[i] == 0) continue;
    sum += ranks[i];
    ++count;
  }
  const double others = static_cast<double>(ranks.size()) - count;
  return count > 0 && others > 0 ? (sum - 0.5 * count * (count + 1)) / (count * others) : unknown;
}

mean_and_error mean_of(std::span<const double> numbers) {
  mean_and_error result{unknown, unknown, 0};
  double sum = 0, squares = 0;
  for (const double x : numbers) {
    if (std::isnan(x)) continue;
    sum += x;
    ++result.count;
  }
  const auto n = static_cast<double>(result.count);
  if (result.count > 0) result.mean = sum / n;
  for (const double x : numbers) squares += std::isnan(x) ? 0 : (x - result.mean) * (x - result.mean);
  if (result.count > 1) result.error = std::sqrt(squares / (n - 1) / n);
  return result;
}

}  // namespace nullscope

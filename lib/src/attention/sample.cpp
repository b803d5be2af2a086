#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nullscope/attention/attention_statistics.hpp>
#include <nullscope/core/errors.hpp>
#include <unordered_set>

#include "kernels/attention/effective_summary.hpp"

namespace nullscope {
namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

using gradient = std::array<double, 3>;

template <class T>
attention_sums add_up(std::span<const T> moments) {
  if (moments.size() % 3 != 0) {
    throw invalid_argument(fmt::format("sum_rows: {} numbers are not three per row", moments.size()));
  }
  attention_sums result;
  for (std::size_t at = 0; at < moments.size(); at += 3) {
    ++result.rows;
    std::size_t pair = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      const double x = static_cast<double>(moments[at + i]);
      result.sum[i] += x;
      for (std::size_t j = i; j < 3; ++j) result.product[pair++] += x * static_cast<double>(moments[at + j]);
    }
  }
  return result;
}

/// g^T C g, with the covariance C of the moments over the rows.
double variance_along(const attention_sums& sums, const gradient& g) {
  const double rows = static_cast<double>(sums.rows);
  double result = 0;
  std::size_t pair = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = i; j < 3; ++j) {
      const double covariance = (sums.product[pair++] - sums.sum[i] * sums.sum[j] / rows) / (rows - 1);
      result += (i == j ? 1 : 2) * g[i] * g[j] * covariance;
    }
  }
  return std::max(0.0, result);  // negative only by rounding; NaN stays
}

}  // namespace

attention_sums& attention_sums::operator+=(const attention_sums& other) {
  rows += other.rows;
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += other.sum[i];
  for (std::size_t i = 0; i < product.size(); ++i) product[i] += other.product[i];
  return *this;
}

attention_sums sum_rows(std::span<const float> moments) { return add_up(moments); }
attention_sums sum_rows(std::span<const double> moments) { return add_up(moments); }

attention_estimate estimate_attention(const attention_sums& sums, const attention_population& population) {
  if (sums.rows < 1 || sums.rows > population.queries) {
    throw invalid_argument(fmt::format("estimate_attention: {} rows of {} queries", sums.rows, population.queries));
  }
  const double all = static_cast<double>(population.queries), rows = static_cast<double>(sums.rows);
  const std::int64_t visible = population.causal ? std::min(population.queries, population.keys) : population.queries;
  // Exact if these are all rows: a product with 1, not with a rounded quotient.
  const auto total = [&](std::size_t i) {
    return sums.rows == population.queries ? sums.sum[i] : all / rows * sums.sum[i];
  };
  const kernels::attention_moments<double> moments{.raw_squares = total(0),
                                                   .squares = total(1),
                                                   .raw_sum = static_cast<double>(visible),
                                                   .sum = total(2),
                                                   .pairs = all * static_cast<double>(population.keys),
                                                   .has_null_space = population.rank != population.keys};
  const auto error = [&](const gradient& g) {
    if (sums.rows == population.queries) return 0.0;
    if (sums.rows == 1) return unknown;
    return all * std::sqrt((1 - rows / all) / rows * variance_along(sums, g));
  };
  const auto norm = [&](double squares, const gradient& of_squares) -> estimated_number {
    const double value = std::sqrt(squares);
    if (value == 0) return {value, 0};
    gradient g = of_squares;
    for (double& x : g) x /= 2 * value;
    return {value, error(g)};
  };
  attention_estimate result{.pearson = {unknown, unknown},
                            .raw_norm = norm(moments.raw_squares, {1, 0, 0}),
                            .effective_norm = norm(moments.squares, {0, 1, 0}),
                            .null_norm = norm(moments.null_squares(), {1, -1, 0})};
  if (!moments.varies(population.epsilon)) return result;
  const double r = moments.correlation(), raw = moments.raw_variance(), variance = moments.variance();
  const double deviations = std::sqrt(raw) * std::sqrt(variance);
  const gradient g{-r / (2 * raw), 1 / deviations - r / (2 * variance),
                   (r * moments.sum / variance - moments.raw_sum / deviations) / moments.pairs};
  result.pearson = {std::min(r, 1.0), error(g)};
  return result;
}

std::vector<std::int64_t> random_rows(random_stream stream, std::int64_t rows, std::int64_t count) {
  if (rows < 0 || count < 0) throw invalid_argument(fmt::format("random_rows: {} of {} rows", count, rows));
  std::vector<std::int64_t> chosen;
  count = std::min(count, rows);
  std::unordered_set<std::int64_t> taken;
  // Floyd's algorithm: number `last` takes the place of one that is taken already.
  for (std::int64_t last = rows - count; last < rows; ++last) {
    const double place = uniform_at<double>(stream, last - (rows - count)) * static_cast<double>(last + 1);
    const std::int64_t wanted = std::min(static_cast<std::int64_t>(place), last);
    chosen.push_back(taken.insert(wanted).second ? wanted : last);
    taken.insert(chosen.back());
  }
  std::ranges::sort(chosen);
  return chosen;
}

}  // namespace nullscope

#include "lib/src/attribution/contributions.hpp"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <nullscope/core/errors.hpp>

namespace nullscope {
namespace detail {

void normalise_rows_of_norms(attribution& of) {
  const auto s = static_cast<std::size_t>(of.tokens);
  of.contribution.resize(of.norm.size());
  for (std::size_t row = 0; row < of.norm.size(); row += s) {
    double total = 0;
    for (std::size_t i = row; i < row + s; ++i) total += of.norm[i];
    for (std::size_t i = row; i < row + s; ++i) of.contribution[i] = of.norm[i] / total;
  }
}

void fill_contributions(tangent_sums sums, std::int64_t samples, std::int64_t width, attribution& to) {
  const double k = static_cast<double>(samples), d = static_cast<double>(width);
  const auto s = static_cast<std::size_t>(to.tokens);
  to.norm = std::move(sums.sum);
  for (double& norm : to.norm) norm = std::sqrt(norm * (d / k));
  normalise_rows_of_norms(to);
  if (!has_standard_errors(samples, width)) return;
  // N = |J|^2 is d times the mean of k of the d squared lengths, of variance d^2 s^2 / k (1 - k / d). That of
  // n = sqrt(N) is var(N) / (4 N); c_i = n_i / sum n moves by (1 - c_i) dn_i / sum n and by -c_i dn_m / sum n, m != i.
  to.standard_error.resize(to.norm.size());
  std::vector<double> variance(s);
  for (std::size_t row = 0; row < to.norm.size(); row += s) {
    double total = 0, total_variance = 0;
    for (std::size_t i = 0; i < s; ++i) {
      const double norm = to.norm[row + i], sum = norm * norm * (k / d);
      const double spread = std::max(0.0, (sums.squares[row + i] - sum * sum / k) / (k - 1));
      variance[i] = norm == 0 ? 0 : d * d * spread / k * (1 - k / d) / (4 * norm * norm);
      total += norm;
      total_variance += variance[i];
    }
    for (std::size_t i = 0; i < s; ++i) {
      const double c = to.contribution[row + i];
      const double of_others = c * c * (total_variance - variance[i]);
      to.standard_error[row + i] = std::sqrt((1 - c) * (1 - c) * variance[i] + of_others) / total;
    }
  }
}

}  // namespace detail

attribution aggregate_words(const attribution& of, std::span<const std::int32_t> words) {
  if (std::cmp_not_equal(words.size(), of.tokens)) {
    throw invalid_argument(fmt::format("aggregate_words: {} words for {} tokens", words.size(), of.tokens));
  }
  std::vector<std::size_t> place;  // of the word of each token
  std::map<std::int32_t, std::size_t> known;
  std::size_t count = 0;
  for (const std::int32_t word : words) {
    const auto [found, is_new] = word < 0 ? std::pair(known.end(), true) : known.try_emplace(word, count);
    place.push_back(is_new ? count++ : found->second);
  }
  attribution result;
  result.tokens = static_cast<std::int64_t>(count);
  result.layers = of.layers;
  result.norm.resize(of.layers.size() * count * count);
  const std::size_t s = words.size();
  for (std::size_t layer = 0; layer < of.layers.size(); ++layer) {
    for (std::size_t j = 0; j < s; ++j) {
      for (std::size_t i = 0; i < s; ++i) {
        const double norm = of.norm[(layer * s + j) * s + i];
        result.norm[(layer * count + place[j]) * count + place[i]] += norm * norm;
      }
    }
  }
  for (double& norm : result.norm) norm = std::sqrt(norm);
  detail::normalise_rows_of_norms(result);
  return result;
}

}  // namespace nullscope

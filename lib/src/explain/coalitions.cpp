#include "lib/src/explain/coalitions.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <unordered_map>

#include "lib/src/linalg/random_draws.hpp"

namespace nullscope::detail {
namespace {

using coalition = std::vector<std::uint8_t>;

/// Collects coalitions; the weights of equal ones are added.
class coalition_set {
 public:
  explicit coalition_set(std::int64_t players) { result_.players = players; }

  void add(const coalition& members, double weight) {
    const auto [found, is_new] =
        places_.try_emplace(std::string(members.begin(), members.end()), result_.present.size());
    if (is_new) {
      result_.present.push_back(members);
      result_.weight.push_back(weight);
    } else {
      result_.weight[found->second] += weight;
    }
  }

  std::size_t size() const { return result_.present.size(); }
  coalitions& result() { return result_; }

 private:
  std::unordered_map<std::string, std::size_t> places_;
  coalitions result_;
};

coalition complement(coalition members) {
  for (std::uint8_t& m : members) m ^= 1;
  return members;
}

double binomial(std::int64_t n, std::int64_t k) {
  double result = 1;
  for (std::int64_t i = 0; i < k; ++i) result *= static_cast<double>(n - i) / static_cast<double>(i + 1);
  return result;
}

/// All coalitions of `size` players, with this weight each, and their complements if those have another size.
void add_all(coalition_set& set, std::int64_t players, std::int64_t size, double weight, bool with_complements) {
  coalition members(static_cast<std::size_t>(players));
  std::fill_n(members.begin(), size, std::uint8_t{1});
  do {
    set.add(members, weight);
    if (with_complements) set.add(complement(members), weight);
  } while (std::ranges::prev_permutation(members).found);
}

}  // namespace

coalitions lime_coalitions(std::int64_t players, std::int64_t samples, double width, std::uint64_t seed) {
  coalition_set set(players);
  set.add(coalition(static_cast<std::size_t>(players), 1), 1);
  random_draws draws({seed, 3});
  for (std::int64_t i = 1; i < samples; ++i) {
    coalition members(static_cast<std::size_t>(players), 1);
    const std::int64_t absent = 1 + draws.below(players);
    for (const std::int32_t player : draws.subset(absent, players)) members[static_cast<std::size_t>(player)] = 0;
    const double share = static_cast<double>(players - absent) / static_cast<double>(players);
    const double distance = 100 * (1 - std::sqrt(share));
    set.add(members, std::exp(-0.5 * distance * distance / (width * width)));
  }
  return std::move(set.result());
}

coalitions shap_coalitions(std::int64_t players, std::int64_t samples, std::uint64_t seed) {
  coalition_set set(players);
  // Sizes 1, 2, ... with their complements players - 1, players - 2, ...: total weight (players - 1) / (k (players -
  // k)) per size.
  std::vector<double> left;  // weight of each pair of sizes
  for (std::int64_t k = 1; 2 * k <= players; ++k) {
    const bool is_pair = 2 * k != players;
    left.push_back((is_pair ? 2.0 : 1.0) * static_cast<double>(players - 1) / static_cast<double>(k * (players - k)));
  }
  double total = 0;
  for (const double weight : left) total += weight;
  for (double& weight : left) weight /= total;
  const double whole = 1;
  double rest = whole;
  auto budget = static_cast<double>(samples);
  std::size_t next = 0;
  for (; next < left.size(); ++next) {
    const auto size = static_cast<std::int64_t>(next) + 1;
    const bool is_pair = 2 * size != players;
    const double count = binomial(players, size) * (is_pair ? 2 : 1);
    // There is room for a size if its share of the remaining samples covers it.
    if (budget * left[next] / rest < count * (1 - 1e-8)) break;
    add_all(set, players, size, left[next] / count, is_pair);
    budget -= count;
    rest -= left[next];
  }
  if (next == left.size()) return std::move(set.result());

  const std::size_t fixed = set.size();
  random_draws draws({seed, 4});
  while (budget >= 1) {
    double at = draws.uniform() * rest;
    std::size_t chosen = next;
    while (chosen + 1 < left.size() && at >= left[chosen]) at -= left[chosen++];
    const auto size = static_cast<std::int64_t>(chosen) + 1;
    coalition members(static_cast<std::size_t>(players));
    for (const std::int32_t player : draws.subset(size, players)) members[static_cast<std::size_t>(player)] = 1;
    const bool has_complement = budget >= 2;
    const double weight = has_complement ? 0.5 : 1;
    set.add(members, weight);
    if (has_complement) set.add(complement(members), weight);
    budget -= has_complement ? 2 : 1;
  }
  coalitions& result = set.result();
  double drawn = 0;
  for (std::size_t i = fixed; i < result.weight.size(); ++i) drawn += result.weight[i];
  for (std::size_t i = fixed; i < result.weight.size(); ++i) result.weight[i] *= rest / drawn;
  return std::move(result);
}

linear_samples shap_equations(const coalitions& chosen, std::span<const double> scores, double none, double all) {
  linear_samples samples;
  samples.features = chosen.players - 1;
  samples.weights = chosen.weight;
  const auto last = static_cast<std::size_t>(chosen.players - 1);
  for (std::size_t i = 0; i < chosen.present.size(); ++i) {
    const coalition& members = chosen.present[i];
    for (std::size_t j = 0; j < last; ++j) samples.rows.push_back(members[j] - static_cast<double>(members[last]));
    samples.targets.push_back(scores[i] - none - members[last] * (all - none));
  }
  return samples;
}

}  // namespace nullscope::detail

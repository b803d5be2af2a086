#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nullscope/attribution/hidden_token_attribution.hpp>
#include <nullscope/core/errors.hpp>

namespace nullscope {
namespace {

constexpr std::int64_t last_of_group[] = {1, 2, 3, 5, 10};

int group_of(std::int64_t distance) {
  return static_cast<int>(std::ranges::lower_bound(last_of_group, distance) - std::begin(last_of_group));
}

std::map<std::int64_t, double> shares_of(std::map<std::int64_t, double> sums) {
  double total = 0;
  for (const auto& [place, sum] : sums) total += sum;
  for (auto& [place, sum] : sums) sum = total > 0 ? sum / total : 0;
  return sums;
}

std::map<std::string, sample_summary> summaries_of(const std::map<std::string, std::vector<double>>& groups) {
  std::map<std::string, sample_summary> result;
  for (const auto& [name, values] : groups) result[name] = summarise_sample(values);
  return result;
}

void check_size(const char* what, std::span<const std::string> names, std::int64_t tokens) {
  if (names.empty() || std::cmp_equal(names.size(), tokens)) return;
  throw invalid_argument(fmt::format("attribution_statistics: {} {} for {} tokens", names.size(), what, tokens));
}

}  // namespace

sample_summary summarise_sample(std::vector<double> values) {
  sample_summary result;
  result.count = static_cast<std::int64_t>(values.size());
  if (values.empty()) return result;
  std::ranges::sort(values);
  const auto quantile = [&](double share) {
    const double place = share * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const std::size_t above = std::min(below + 1, values.size() - 1);
    return std::lerp(values[below], values[above], place - static_cast<double>(below));
  };
  for (const double x : values) result.mean += x / static_cast<double>(values.size());
  result.low = quantile(0.25);
  result.median = quantile(0.5);
  result.high = quantile(0.75);
  return result;
}

const char* attribution_statistics::name_of_distance(int group) {
  constexpr const char* names[distance_groups] = {"1", "2", "3", "4-5", "6-10", "11+"};
  return names[group];
}

std::vector<double> relative_errors(const attribution& of) {
  const auto s = static_cast<std::size_t>(of.tokens);
  std::vector<double> errors;
  for (std::size_t row = 0; row < of.standard_error.size(); row += s) {
    double error = 0, contribution = 0;
    for (std::size_t i = row; i < row + s; ++i) {
      error += of.standard_error[i] * of.standard_error[i];
      contribution += of.contribution[i] * of.contribution[i];
    }
    errors.push_back(contribution > 0 ? std::sqrt(error / contribution) : 0);
  }
  return errors;
}

void attribution_statistics::add(const attribution& of, const attributed_text& about) {
  if (texts_ > 0 && of.layers != layers_) throw invalid_argument("attribution_statistics: the texts differ in layers");
  check_size("classes", about.classes, of.tokens);
  check_size("tags", about.tags, of.tokens);
  ++texts_;
  layers_ = of.layers;
  of_layer_.resize(layers_.size());
  const std::int64_t s = of.tokens;
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    sums& to = of_layer_[layer];
    for (std::int64_t j = 0; j < s; ++j) {
      const double* row = of.contribution.data() + (static_cast<std::int64_t>(layer) * s + j) * s;
      if (std::isnan(row[j])) continue;
      to.own.push_back(row[j]);
      if (!about.classes.empty()) to.own_by_class[about.classes[static_cast<std::size_t>(j)]].push_back(row[j]);
      if (!about.tags.empty()) to.own_by_tag[about.tags[static_cast<std::size_t>(j)]].push_back(row[j]);
      to.not_largest += *std::max_element(row, row + s) > row[j];
      double sum[distance_groups] = {};
      std::int64_t count[distance_groups] = {};
      for (std::int64_t i = 0; i < s; ++i) {
        if (i == j) continue;
        const int group = group_of(std::abs(i - j));
        sum[group] += row[i];
        ++count[group];
        to.offset[i - j] += row[i];
        if (j == 0) to.first_token[i] += row[i];
        if (j == 0 && about.separator >= 0) to.separator[i - about.separator] += row[i];
      }
      for (int group = 0; group < distance_groups; ++group) {
        if (count[group] == 0) continue;
        to.distance_sum[group] += sum[group] / static_cast<double>(count[group]);
        ++to.distance_count[group];
      }
    }
  }
}

std::map<std::string, sample_summary> attribution_statistics::own_by_class(std::size_t layer) const {
  return summaries_of(of_layer_[layer].own_by_class);
}
std::map<std::string, sample_summary> attribution_statistics::own_by_tag(std::size_t layer) const {
  return summaries_of(of_layer_[layer].own_by_tag);
}

double attribution_statistics::not_largest(std::size_t layer) const {
  const sums& of = of_layer_[layer];
  return of.own.empty() ? 0 : static_cast<double>(of.not_largest) / static_cast<double>(of.own.size());
}

double attribution_statistics::by_distance(std::size_t layer, int group) const {
  const sums& of = of_layer_[layer];
  return of.distance_count[group] == 0 ? 0 : of.distance_sum[group] / static_cast<double>(of.distance_count[group]);
}

double attribution_statistics::share_of_layers(std::size_t layer, int group) const {
  double total = 0;
  for (std::size_t l = 0; l < layers_.size(); ++l) total += by_distance(l, group);
  return total > 0 ? by_distance(layer, group) / total : 0;
}

std::map<std::int64_t, double> attribution_statistics::by_offset(std::size_t layer) const {
  return shares_of(of_layer_[layer].offset);
}
std::map<std::int64_t, double> attribution_statistics::to_first_token(std::size_t layer) const {
  return shares_of(of_layer_[layer].first_token);
}
std::map<std::int64_t, double> attribution_statistics::to_first_token_around_separator(std::size_t layer) const {
  return shares_of(of_layer_[layer].separator);
}

}  // namespace nullscope

#include "lib/src/model/attention_sums.hpp"

#include <cmath>
#include <numeric>

namespace nullscope::detail {

attention_sums::attention_sums(std::int64_t matrices, std::int64_t classes)
    : matrices_(matrices),
      classes_(classes),
      raw_(static_cast<std::size_t>(matrices * (classes + 1) * classes), 0.0),
      effective_(raw_),
      texts_(static_cast<std::size_t>(classes + 1), 0) {}

void attention_sums::add(const std::vector<double>& sums, const std::vector<std::int64_t>& tokens) {
  const std::int64_t all = std::accumulate(tokens.begin(), tokens.end(), std::int64_t{0});
  // The sum over the queries of one class, or of all.
  const auto over_queries = [&](const double* of_matrix, std::int64_t from, std::int64_t to) {
    if (from < classes_) return of_matrix[from * classes_ + to];
    double sum = 0;
    for (std::int64_t row = 0; row < classes_; ++row) sum += of_matrix[row * classes_ + to];
    return sum;
  };
  for (std::int64_t from = 0; from <= classes_; ++from) {
    const std::int64_t queries = from < classes_ ? tokens[static_cast<std::size_t>(from)] : all;
    if (queries == 0) continue;
    ++texts_[static_cast<std::size_t>(from)];
    for (std::int64_t matrix = 0; matrix < matrices_; ++matrix) {
      const double* const raw = sums.data() + matrix * classes_ * classes_;
      const double* const effective = raw + matrices_ * classes_ * classes_;
      for (std::int64_t to = 0; to < classes_; ++to) {
        const auto place = static_cast<std::size_t>((matrix * (classes_ + 1) + from) * classes_ + to);
        raw_[place] += over_queries(raw, from, to) / static_cast<double>(queries);
        effective_[place] += over_queries(effective, from, to) / static_cast<double>(queries);
      }
    }
  }
}

class_averages attention_sums::averages() const {
  class_averages result{matrices_, classes_, raw_, effective_, texts_};
  for (std::size_t i = 0; i < raw_.size(); ++i) {
    const std::size_t from = i / static_cast<std::size_t>(classes_) % static_cast<std::size_t>(classes_ + 1);
    const double count = static_cast<double>(texts_[from]);  // 0 / 0 is NaN
    result.raw[i] /= count;
    result.effective[i] /= count;
  }
  return result;
}

}  // namespace nullscope::detail

namespace nullscope {

template <class T>
head_means mean_of_heads(std::span<const text_attention<T>> texts, std::int64_t first_head, std::int64_t count) {
  head_means sums;
  double correlated = 0, all = 0;
  for (const text_attention<T>& text : texts) {
    for (std::int64_t i = first_head; i < first_head + count; ++i) {
      const head_numbers<T>& one = text.heads[static_cast<std::size_t>(i)];
      const double share = static_cast<double>(one.null_norm) / static_cast<double>(one.raw_norm);
      sums.rank += static_cast<double>(one.rank);
      sums.entropy += static_cast<double>(one.entropy);
      sums.null_share += share * share;
      ++all;
      if (std::isnan(one.pearson)) continue;
      sums.pearson += static_cast<double>(one.pearson);
      ++correlated;
    }
  }
  return {sums.rank / all, sums.pearson / correlated, sums.entropy / all, sums.null_share / all};
}

template head_means mean_of_heads(std::span<const text_attention<float>>, std::int64_t, std::int64_t);
template head_means mean_of_heads(std::span<const text_attention<double>>, std::int64_t, std::int64_t);

}  // namespace nullscope

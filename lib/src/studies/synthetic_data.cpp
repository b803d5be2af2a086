#include <cmath>
#include <nullscope/core/errors.hpp>
#include <nullscope/linalg/random.hpp>
#include "lib/src/studies/synthetic_experiments.hpp"

#include "lib/src/linalg/random_draws.hpp"

namespace nullscope {

const word_model& linear_words() {
  static const word_model words{{"the", "we", "movie", "watch", "good", "best", "perfect", "ok", "bad", "worst"},
                                {0, 0, 0, 0, 0.6, 1, 1.5, -0.6, -1, -1.5},
                                {1. / 6, 1. / 6, 1. / 6, 1. / 6, 1. / 15, 1. / 20, 1. / 20, 1. / 15, 1. / 20, 1. / 20}};
  return words;
}

namespace {

std::int32_t drawn_label(double log_odds, detail::random_draws& draws) {
  return draws.uniform() < 1 / (1 + std::exp(-log_odds)) ? 1 : 0;
}

}  // namespace

std::vector<labelled_sequence> linear_data(std::int64_t count, std::uint64_t seed) {
  const word_model& model = linear_words();
  detail::random_draws draws({seed, 21});
  std::vector<labelled_sequence> data;
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t length = 0;
    for (int k = 0; k < 30; ++k) length += draws.uniform() < 0.5 ? 1 : 0;
    labelled_sequence sequence{{word_model::class_word}, 0, 0};
    for (std::int64_t k = 0; k < std::max<std::int64_t>(length, 1); ++k) {
      double at = draws.uniform();
      std::size_t word = 0;
      while (word + 1 < model.words.size() && at >= model.probability[word]) at -= model.probability[word++];
      sequence.ids.push_back(word_model::first_word + static_cast<std::int32_t>(word));
      sequence.log_odds += model.weight[word];
    }
    sequence.label = drawn_label(sequence.log_odds, draws);
    data.push_back(std::move(sequence));
  }
  return data;
}

slalom_model random_slalom(std::int64_t words, std::uint64_t seed) {
  if (words < 1) throw invalid_argument("random_slalom: there must be at least one word");
  slalom_model model;
  double sum = 0;
  for (std::int64_t j = 0; j < words; ++j) {
    const double v = 0.4 * normal_at<double>({seed, 22}, j);
    model.value.push_back(v);
    model.importance.push_back(5 * std::pow(std::abs(v), 1.5) + 0.5 * normal_at<double>({seed, 23}, j));
    sum += model.importance.back();
  }
  for (double& s : model.importance) s -= sum / static_cast<double>(words);
  return model;
}

std::vector<labelled_sequence> slalom_data(const slalom_model& model, std::int64_t count, std::int64_t longest,
                                           std::uint64_t seed) {
  detail::random_draws draws({seed, 24});
  std::vector<labelled_sequence> data;
  slalom_queries queries(model.tokens());
  for (std::int64_t i = 0; i < count; ++i) {
    std::vector<std::int32_t> words;
    const std::int64_t length = 1 + draws.below(longest);
    for (std::int64_t k = 0; k < length; ++k) words.push_back(static_cast<std::int32_t>(draws.below(model.tokens())));
    queries.add(words);
    labelled_sequence sequence{{word_model::class_word}, 0, 0};
    for (const std::int32_t word : words) sequence.ids.push_back(word_model::first_word + word);
    data.push_back(std::move(sequence));
  }
  const std::vector<double> scores = predict(model, queries);
  for (std::size_t i = 0; i < data.size(); ++i) {
    data[i].log_odds = scores[i];
    data[i].label = drawn_label(scores[i], draws);
  }
  return data;
}

}  // namespace nullscope

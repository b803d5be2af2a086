#include "lib/src/studies/synthetic_experiments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nullscope/core/errors.hpp>
#include <nullscope/explain/slalom.hpp>
#include "lib/src/explain/query_sampling.hpp"

#include "lib/src/explain/slalom_layout.hpp"

namespace nullscope {
namespace {

constexpr std::int64_t places = 30;  // of words in a sequence

std::vector<double> log_odds_of(const explained_model& model, const std::vector<token_sequence>& sequences) {
  const std::vector<double> logits = model.logits(sequences);
  std::vector<double> scores;
  for (std::size_t i = 0; i < logits.size(); i += 2) scores.push_back(logits[i + 1] - logits[i]);
  return scores;
}

double squared_error(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum / static_cast<double>(a.size());
}

std::vector<token_sequence> sequences_of(std::span<const labelled_sequence> data) {
  std::vector<token_sequence> sequences;
  for (const labelled_sequence& one : data) sequences.push_back(one.ids);
  return sequences;
}

std::vector<std::int32_t> words_of(const token_sequence& ids) {
  std::vector<std::int32_t> words;
  for (const std::int32_t id : ids) {
    if (id != word_model::class_word) words.push_back(id - word_model::first_word);
  }
  return words;
}

slalom_queries queries_of(const std::vector<token_sequence>& sequences, std::int64_t words) {
  slalom_queries queries(words);
  for (const token_sequence& ids : sequences) queries.add(words_of(ids));
  return queries;
}

/// Counts of the words, or with places one feature for each word at each place.
linear_samples features_of(const std::vector<token_sequence>& sequences, std::int64_t words, bool with_places) {
  linear_samples samples;
  samples.features = with_places ? words * places : words;
  for (const token_sequence& ids : sequences) {
    std::vector<double> row(static_cast<std::size_t>(samples.features));
    std::int64_t place = 0;
    for (const std::int32_t word : words_of(ids)) {
      ++row[static_cast<std::size_t>(with_places ? place++ * words + word : word)];
    }
    samples.rows.insert(samples.rows.end(), row.begin(), row.end());
  }
  samples.targets.resize(sequences.size());
  return samples;
}

/// The vocabulary as a text, for sampling its words.
explained_text vocabulary_text(std::int64_t words) {
  explained_text text;
  text.ids.push_back(word_model::class_word);
  text.special.push_back(1);
  for (std::int32_t word = 0; word < words; ++word) {
    text.ids.push_back(word_model::first_word + word);
    text.special.push_back(0);
  }
  return text;
}

slalom_model fit_analytically(const explained_model& model, std::int64_t words) {
  std::vector<token_sequence> single, pairs;
  for (std::int32_t word = 0; word < words; ++word) {
    single.push_back({word_model::class_word, word_model::first_word + word});
  }
  const std::vector<double> alone = log_odds_of(model, single);
  const std::int32_t reference = best_reference(alone, 1);
  for (std::int32_t word = 0; word < words; ++word) {
    pairs.push_back({word_model::class_word, word_model::first_word + reference, word_model::first_word + word});
  }
  return analytic_slalom(alone, log_odds_of(model, pairs), 1, reference);
}

}  // namespace

surrogate_errors compare_surrogates(context& ctx, const explained_model& network, const surrogate_options& options) {
  const word_model& model = linear_words();
  const auto words = std::ssize(model.words);
  const auto found_word = std::ranges::find(model.words, options.repeated);
  if (found_word == model.words.end()) {
    throw invalid_argument(fmt::format("compare_surrogates: there is no word \"{}\"", options.repeated));
  }
  const auto word = found_word - model.words.begin();
  const std::vector<labelled_sequence> data = linear_data(options.samples, options.seed);
  const std::vector<labelled_sequence> other = linear_data(options.samples, options.seed + 1);
  const std::vector<token_sequence> fitted = sequences_of(data), tested = sequences_of(other);
  std::vector<token_sequence> repeated;
  surrogate_errors result;
  for (std::int64_t n = 1; n <= std::min(options.longest, places); ++n) {
    token_sequence ids{word_model::class_word};
    ids.insert(ids.end(), static_cast<std::size_t>(n), word_model::first_word + static_cast<std::int32_t>(word));
    repeated.push_back(std::move(ids));
    result.truth.push_back(static_cast<double>(n) * model.weight[static_cast<std::size_t>(word)]);
  }
  const std::vector<double> scores = log_odds_of(network, fitted), test_scores = log_odds_of(network, tested);
  result.network = log_odds_of(network, repeated);
  for (std::size_t i = 0; i < other.size(); ++i) {
    result.accuracy += ((test_scores[i] > 0) == (other[i].label == 1) ? 1.0 : 0.0) / static_cast<double>(other.size());
  }
  for (const bool with_places : {false, true}) {
    linear_samples samples = features_of(fitted, words, with_places);
    samples.targets = scores;
    const linear_surrogate fit = fit_linear(ctx, {&samples, 1}, {.lasso = with_places ? options.lasso : 0})[0];
    (with_places ? result.gam : result.linear) =
        squared_error(predict(fit, features_of(tested, words, with_places)), test_scores);
    (with_places ? result.by_gam : result.by_linear) = predict(fit, features_of(repeated, words, with_places));
  }
  slalom_queries queries = queries_of(fitted, words);
  queries.targets = scores;
  result.found = fit_slalom(ctx, {&queries, 1}, {.noise = network.noise})[0];
  result.slalom = squared_error(predict(result.found, queries_of(tested, words)), test_scores);
  result.by_slalom = predict(result.found, queries_of(repeated, words));
  return result;
}

recovery_errors recover_slalom(context& ctx, const explained_model& network, const slalom_model& planted,
                               recovery_fit fit, const recovery_options& options) {
  const std::int64_t words = options.words == 0 ? planted.tokens() : options.words;
  if (words < 1 || words > planted.tokens()) {
    throw invalid_argument(fmt::format("recover_slalom: {} words of {}", words, planted.tokens()));
  }
  recovery_errors result;
  using clock = std::chrono::steady_clock;
  const auto seconds_since = [](clock::time_point start) {
    return std::chrono::duration<double>(clock::now() - start).count();
  };
  if (fit == recovery_fit::analytic) {
    const clock::time_point start = clock::now();
    result.found = fit_analytically(network, words);
    result.seconds = seconds_since(start);
    result.queries = 2 * words - 1;
  } else {
    const explained_text text = vocabulary_text(words);
    sampled_queries drawn =
        sample_queries(text, parameters_of_text(text, token_identity::by_id), 1,
                       {.samples = options.samples, .length = options.length, .seed = options.seed});
    drawn.queries.targets = log_odds_of(network, drawn.sequences);
    if (fit == recovery_fit::sgd) detail::count_as(drawn.queries, options.samples);
    const clock::time_point start = clock::now();
    const slalom_method method = fit == recovery_fit::sgd ? slalom_method::sgd : slalom_method::least_squares;
    result.found = fit_slalom(ctx, {&drawn.queries, 1}, {.method = method, .noise = network.noise})[0];
    result.seconds = seconds_since(start);
    result.queries = drawn.queries.size();
  }
  slalom_model truth;  // of these words, centred
  truth.value.assign(planted.value.begin(), planted.value.begin() + words);
  truth.importance.assign(planted.importance.begin(), planted.importance.begin() + words);
  double sum = 0;
  for (const double s : truth.importance) sum += s;
  for (double& s : truth.importance) s -= sum / static_cast<double>(words);
  for (const std::int64_t longest : options.longest) {
    const std::vector<token_sequence> tested =
        sequences_of(slalom_data(truth, options.tested, longest, options.seed + 1));
    const slalom_queries queries = queries_of(tested, words);
    result.logits.push_back(squared_error(predict(result.found, queries), predict(truth, queries)));
  }
  result.parameters =
      0.5 * (squared_error(result.found.value, truth.value) + squared_error(result.found.importance, truth.importance));
  return result;
}

}  // namespace nullscope

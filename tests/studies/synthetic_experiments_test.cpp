/// The synthetic experiments on models whose answers are known, and the networks that they train.
#include "lib/src/studies/synthetic_experiments.hpp"

#include <algorithm>
#include <cmath>

#include "tests/core/support.hpp"
#include "tests/explain/planted.hpp"

namespace nullscope::test {
namespace {

/// A model of two classes from a log-odds.
explained_model model_of(std::function<double(const token_sequence&)> log_odds) {
  return {.classes = 2, .logits = [log_odds](std::span<const token_sequence> sequences) {
            std::vector<double> logits;
            for (const token_sequence& sequence : sequences) {
              const double score = log_odds(sequence);
              logits.insert(logits.end(), {0.25 - score / 2, 0.25 + score / 2});
            }
            return logits;
          }};
}

double linear_log_odds(const token_sequence& ids) {
  double sum = 0;
  for (const std::int32_t id : ids) {
    if (id != word_model::class_word) sum += linear_words().weight.at(static_cast<std::size_t>(id - 1));
  }
  return sum;
}

explained_model model_of(const slalom_model& slalom) {
  return model_of([slalom](const token_sequence& ids) {
    std::vector<std::int32_t> words;
    for (const std::int32_t id : ids) {
      if (id != word_model::class_word) words.push_back(id - word_model::first_word);
    }
    slalom_queries query(slalom.tokens());
    query.add(words);
    return predict(slalom, query)[0];
  });
}

class synthetic_experiments_test : public device_test {
 protected:
  void SetUp() override {
    if (!has_fp64()) GTEST_SKIP() << "bounds are those of double";
  }
};

INSTANTIATE_TEST_SUITE_P(devices, synthetic_experiments_test, testing::ValuesIn(devices()), device_name);

/// Five standard errors of a mean of `count` numbers with this deviation.
double five_errors(double deviation, std::size_t count) {
  return 5 * deviation / std::sqrt(static_cast<double>(count));
}

TEST(synthetic_data, linear_data_has_the_lengths_words_and_labels_of_the_paper) {
  const std::vector<labelled_sequence> data = linear_data(4000, 7);
  double length = 0, good = 0, surprise = 0;
  for (const labelled_sequence& one : data) {
    ASSERT_EQ(one.ids[0], word_model::class_word);
    length += static_cast<double>(one.ids.size() - 1);
    good += static_cast<double>(std::ranges::count(one.ids, 5));  // "good", with probability 1 / 15
    EXPECT_NEAR(one.log_odds, linear_log_odds(one.ids), 1e-12);
    surprise += one.label - 1 / (1 + std::exp(-one.log_odds));
  }
  const std::size_t count = data.size();
  EXPECT_NEAR(length / static_cast<double>(count), 15, five_errors(std::sqrt(7.5), count));
  EXPECT_NEAR(good / length, 1.0 / 15, five_errors(std::sqrt(14.0) / 15, static_cast<std::size_t>(length)));
  EXPECT_NEAR(surprise / static_cast<double>(count), 0, five_errors(0.5, count));
}

TEST(synthetic_data, slalom_data_follows_its_model) {
  const slalom_model planted = random_slalom(20, 3);
  double sum = 0;
  for (const double s : planted.importance) sum += s;
  EXPECT_NEAR(sum, 0, 1e-12);
  const std::vector<labelled_sequence> data = slalom_data(planted, 1000, 30, 4);
  double length = 0, surprise = 0;
  for (const labelled_sequence& one : data) {
    length += static_cast<double>(one.ids.size() - 1);
    const explained_model model = model_of(planted);
    const std::vector<double> logits = model.logits({&one.ids, 1});
    EXPECT_NEAR(one.log_odds, logits[1] - logits[0], 1e-12);
    surprise += one.label - 1 / (1 + std::exp(-one.log_odds));
  }
  EXPECT_NEAR(length / 1000, 15.5, five_errors(std::sqrt((30.0 * 30 - 1) / 12), 1000));
  EXPECT_NEAR(surprise / 1000, 0, five_errors(0.5, 1000));
}

TEST_P(synthetic_experiments_test, each_surrogate_describes_its_own_kind) {
  const surrogate_errors linear = compare_surrogates(ctx_, model_of(linear_log_odds), {.samples = 600});
  EXPECT_LE(linear.linear, 1e-20);
  EXPECT_GE(linear.slalom, 0.1);
  EXPECT_LE(largest_difference(linear.network, linear.truth), 1e-12);
  EXPECT_LE(largest_difference(linear.by_linear, linear.truth), 1e-10);
  EXPECT_EQ(linear.truth.size(), 30u);
  EXPECT_NEAR(linear.truth[9], 15, 1e-12);  // "perfect" ten times

  const surrogate_errors slalom = compare_surrogates(ctx_, model_of(random_slalom(10, 5)), {.samples = 600});
  EXPECT_LE(slalom.slalom, 1e-18);
  EXPECT_GE(slalom.linear, 1e-4);
  EXPECT_GE(slalom.gam, slalom.linear);  // the lasso costs it more than its places gain
  EXPECT_LE(largest_difference(slalom.by_slalom, slalom.network), 1e-9);
}

TEST_P(synthetic_experiments_test, a_planted_slalom_comes_back_from_itself) {
  const slalom_model planted = random_slalom(30, 6);
  const explained_model model = model_of(planted);
  for (const std::int64_t words : {6, 30}) {
    for (const recovery_fit fit : {recovery_fit::least_squares, recovery_fit::analytic, recovery_fit::sgd}) {
      const recovery_errors found = recover_slalom(ctx_, model, planted, fit, {.words = words, .longest = {2, 30}});
      // The steps of SGD end before the largest importances are reached.
      const double bound = fit == recovery_fit::sgd ? 0.1 : 1e-18;
      EXPECT_LE(found.parameters, bound) << words;
      ASSERT_EQ(found.logits.size(), 2u);
      EXPECT_LE(found.logits[0], bound) << words;
      EXPECT_LE(found.logits[1], bound) << words;
      EXPECT_EQ(found.found.tokens(), words);
    }
  }
}

TEST_P(synthetic_experiments_test, a_fully_connected_network_learns_a_linear_relation) {
  const std::vector<labelled_sequence> data = linear_data(20000, 8);
  double last = 0;
  const experiment_training training{.learning_rate = 3e-3, .progress = [&](double share) {
                                       EXPECT_GE(share, last);
                                       last = share;
                                     }};
  const experiment_network network{.kind = network_kind::fully_connected, .width = 24};
  const explained_model model = train_network(ctx_, network, 10, data, training);
  EXPECT_EQ(last, 1);
  EXPECT_EQ(network.name(), "fully connected, 24");
  const surrogate_errors found = compare_surrogates(ctx_, model, {.samples = 400});
  // The log-odds grow by the same amount with every word, also where there are no data, and a linear model describes
  // the network best.
  const double growth = (found.network[29] - found.network[4]) / 25;
  EXPECT_GT(growth, 0.5);
  for (std::size_t i = 5; i < 30; ++i) EXPECT_NEAR(found.network[i] - found.network[i - 1], growth, 0.1 * growth);
  EXPECT_LT(found.linear, found.slalom);
  EXPECT_GT(found.accuracy, 0.75);
  const explained_model again = train_network(ctx_, network, 10, data, {.learning_rate = 3e-3});
  EXPECT_EQ(model.logits({&data[0].ids, 1}), again.logits({&data[0].ids, 1}));
}

TEST_P(synthetic_experiments_test, refuses_what_cannot_be) {
  const std::vector<labelled_sequence> data = linear_data(10, 1);
  const auto refused = [&](auto work) { return message_of<invalid_argument>(work); };
  const experiment_network counts{.kind = network_kind::fully_connected, .width = 4};
  EXPECT_NE(refused([&] { train_network(ctx_, counts, 3, data, {}); }).find("of a vocabulary of 3 words"),
            std::string::npos);
  EXPECT_NE(refused([&] { train_network(ctx_, {.width = 6, .heads = 4}, 10, data, {}); }).find("multiple of 4 heads"),
            std::string::npos);
  EXPECT_NE(refused([&] { train_network(ctx_, counts, 10, {}, {}); }).find("0 sequences"), std::string::npos);
  EXPECT_NE(
      refused([&] { compare_surrogates(ctx_, model_of(linear_log_odds), {.repeated = "splendid"}); }).find("splendid"),
      std::string::npos);
  const slalom_model planted = random_slalom(5, 1);
  EXPECT_NE(refused([&] {
              recover_slalom(ctx_, model_of(planted), planted, recovery_fit::analytic, {.words = 6});
            }).find("6 words of 5"),
            std::string::npos);
}

}  // namespace
}  // namespace nullscope::test

/// Sampling, explanations and their measures, on models whose answers are known.
#include <nullscope/explanations.hpp>
#include <nullscope/faithfulness.hpp>
#include <nullscope/linear_fit.hpp>

#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "tests/core/layouts.hpp"
#include "tests/core/support.hpp"
#include "tests/surrogate/planted.hpp"

namespace nullscope::test {
namespace {

constexpr std::int32_t begin_id = 100, end_id = 101;  // of special tokens

/// A log-odds of each sequence, and how often the model was asked.
struct counted_model {
  std::function<double(const token_sequence&)> score;
  std::multiset<token_sequence> asked = {};

  explained_model model() {
    return {.classes = 1, .logits = [this](std::span<const token_sequence> sequences) {
              std::vector<double> scores;
              for (const token_sequence& s : sequences) {
                asked.insert(s);
                scores.push_back(score(s));
              }
              return scores;
            }};
  }
};

explained_text with_ends(const token_sequence& ids) {
  explained_text text;
  text.ids.push_back(begin_id);
  text.ids.insert(text.ids.end(), ids.begin(), ids.end());
  text.ids.push_back(end_id);
  text.special.assign(text.ids.size(), 0);
  text.special.front() = text.special.back() = 1;
  return text;
}

bool is_ordinary(std::int32_t id) { return id != begin_id && id != end_id; }

double weight_of_id(std::int32_t id) { return std::sin(1.7 * id) + 0.3; }

/// 0.25 plus the weights of all tokens; fails on sequences without the special tokens.
double linear_score(const token_sequence& sequence) {
  EXPECT_EQ(sequence.front(), begin_id);
  EXPECT_EQ(sequence.back(), end_id);
  double sum = 0.25;
  for (const std::int32_t id : sequence) sum += is_ordinary(id) ? weight_of_id(id) : 0;
  return sum;
}

class explanations_test : public device_test {
 protected:
  void SetUp() override {
    if (!has_fp64()) GTEST_SKIP() << "bounds are those of double";
  }

  explanation explain_one(counted_model& model, const explained_text& text, const explain_options& options) {
    return explain(ctx_, model.model(), {&text, 1}, options)[0];
  }

  /// A planted SLALOM over the ids 0 to tokens - 1.
  static counted_model slalom_of(const slalom_model& planted) {
    return {[planted](const token_sequence& sequence) {
      slalom_queries query(planted.tokens());
      std::vector<std::int32_t> tokens;
      for (const std::int32_t id : sequence) {
        if (is_ordinary(id)) tokens.push_back(id);
      }
      if (tokens.empty()) return 0.0;  // LIME and SHAP ask for it
      query.add(tokens);
      return predict(planted, query)[0];
    }};
  }

  static token_sequence counting(std::int32_t count) {
    token_sequence ids(static_cast<std::size_t>(count));
    std::iota(ids.begin(), ids.end(), 0);
    return ids;
  }
};

INSTANTIATE_TEST_SUITE_P(devices, explanations_test, testing::ValuesIn(devices()), device_name);

TEST_P(explanations_test, slalom_finds_a_planted_slalom_by_every_fit_and_kind_of_query) {
  const slalom_model planted = planted_slalom(9, 1, 3);
  const explained_text text = with_ends({4, 2, 0, 1, 4, 3, 5, 8, 7, 6, 4});
  counted_model model = slalom_of(planted);
  for (const slalom_fit_kind fit : {slalom_fit_kind::least_squares, slalom_fit_kind::analytic, slalom_fit_kind::sgd}) {
    for (const query_kind kind : {query_kind::short_sequences, query_kind::deletions}) {
      if (fit == slalom_fit_kind::sgd && kind == query_kind::deletions) continue;
      const explanation found =
          explain_one(model, text, {.samples = 3000, .kind = kind, .most_deleted = 9, .fit = fit});
      // Importances sum to 0 over the tokens of the text.
      const double bound = fit == slalom_fit_kind::sgd ? 0.1 : 1e-9;
      for (std::size_t i = 1; i + 1 < text.ids.size(); ++i) {
        const auto id = static_cast<std::size_t>(text.ids[i]);
        EXPECT_NEAR(found.slalom.value[i], planted.value[id], bound);
        EXPECT_NEAR(found.slalom.importance[i], planted.importance[id], bound);
        EXPECT_EQ(found.attribution[i], found.slalom.linearised[i]);
      }
      EXPECT_TRUE(std::isnan(found.slalom.value[0]));
      EXPECT_EQ(found.attribution[0], 0);
      if (fit == slalom_fit_kind::analytic) {
        EXPECT_EQ(found.queries, 2 * 9 - 1);
      }
    }
  }
}

TEST_P(explanations_test, repeated_queries_are_computed_once) {
  counted_model model = slalom_of(planted_slalom(5, 1, 3));
  const explanation found = explain_one(model, with_ends(counting(5)), {.samples = 24});
  EXPECT_LE(found.queries, 24);
  for (const token_sequence& sequence : model.asked) EXPECT_EQ(model.asked.count(sequence), 1u);
  const explained_text text = with_ends(counting(3));
  const sampled_queries all =
      sample_queries(text, parameters_of_text(text, token_identity::by_id), 1, {.samples = 1000});
  EXPECT_TRUE(all.is_complete);
  EXPECT_EQ(all.drawn, 9);
  const sampled_queries few = sample_queries(text, parameters_of_text(text, token_identity::by_id), 1, {.samples = 8});
  EXPECT_EQ(std::accumulate(few.queries.weight.begin(), few.queries.weight.end(), 0.0), 8);
}

TEST_P(explanations_test, few_places_get_other_lengths) {
  const slalom_model planted = planted_slalom(4, 1, 8);
  counted_model model = slalom_of(planted);
  for (const std::int32_t count : {1, 2, 3, 4}) {
    const explanation found = explain_one(model, with_ends(counting(count)), {.identity = token_identity::by_place});
    ASSERT_FALSE(found.notes.empty());
    for (std::int32_t i = 0; i < count; ++i) {
      EXPECT_NEAR(found.slalom.value[static_cast<std::size_t>(i) + 1], planted.value[static_cast<std::size_t>(i)],
                  1e-9);
    }
  }
  const explained_text five = with_ends(counting(5));
  EXPECT_FALSE(sample_queries(five, parameters_of_text(five, token_identity::by_place), 1,
                              {.identity = token_identity::by_place})
                   .is_lengthened);
}

/// Not what the model says about the token repeated.
TEST_P(explanations_test, the_value_of_a_lone_token_is_the_score_of_the_text) {
  counted_model model{[](const token_sequence& s) { return 0.5 * static_cast<double>(s.size()); }};
  for (const slalom_fit_kind fit : {slalom_fit_kind::least_squares, slalom_fit_kind::analytic}) {
    const explanation found = explain_one(model, with_ends({4}), {.fit = fit});
    EXPECT_NEAR(found.slalom.value[1], 1.5, 1e-12);
    EXPECT_EQ(found.queries, 1);
    EXPECT_FALSE(found.notes.empty());
  }
}

TEST_P(explanations_test, says_that_a_constant_model_has_no_importances) {
  counted_model model{[](const token_sequence&) { return 0.5; }};
  const explanation found = explain_one(model, with_ends(counting(6)), {});
  EXPECT_NE(std::accumulate(found.notes.begin(), found.notes.end(), std::string()).find("not identifiable"),
            std::string::npos);
}

TEST_P(explanations_test, several_classes_share_importances) {
  const slalom_model planted = planted_slalom(7, 3, 5);
  explained_model model{.classes = 3, .logits = [&](std::span<const token_sequence> sequences) {
                          slalom_queries queries(7, 3);
                          for (const token_sequence& s : sequences) queries.add(s);
                          std::vector<double> logits = predict(planted, queries);
                          for (std::size_t i = 0; i < logits.size(); ++i) logits[i] += static_cast<double>(i / 3);
                          return logits;  // a constant for all classes does not matter
                        }};
  const explained_text text{.ids = {0, 1, 2, 3, 4, 5, 6}};
  for (std::int64_t c = 0; c < 3; ++c) {
    const explanation found = explain(ctx_, model, {&text, 1}, {.of_class = c})[0];
    for (std::size_t i = 0; i < 7; ++i) {
      EXPECT_NEAR(found.slalom.value[i], planted.value[static_cast<std::size_t>(c) * 7 + i], 1e-9);
      EXPECT_NEAR(found.slalom.importance[i], planted.importance[i], 1e-9);
    }
  }
}

TEST_P(explanations_test, lime_without_ridge_and_shap_are_exact_on_linear_functions) {
  counted_model model{linear_score};
  const explained_text text = with_ends({7, 3, 9, 3, 11, 2, 5});
  for (const explanation_method method :
       {explanation_method::lime, explanation_method::shap, explanation_method::linear}) {
    const explanation found = explain_one(model, text, {.method = method, .samples = 400, .ridge = 0});
    for (std::size_t i = 1; i + 1 < text.ids.size(); ++i) {
      EXPECT_NEAR(found.attribution[i], weight_of_id(text.ids[i]), 1e-10) << to_string(method);
    }
    EXPECT_NEAR(found.base, 0.25, 1e-10);
    EXPECT_LE(found.fit_error, 1e-20);
  }
}

/// A token weighs more the further back it stands: what an additive surrogate can say, and a linear one cannot.
TEST_P(explanations_test, additive_is_exact_on_functions_of_token_and_position) {
  counted_model model{[](const token_sequence& sequence) {
    double sum = 0.25;
    for (std::size_t k = 1; k + 1 < sequence.size(); ++k) sum += static_cast<double>(k) * weight_of_id(sequence[k]);
    return sum;
  }};
  const explained_text text = with_ends({7, 3, 9, 3, 11, 2, 5});
  const auto found_by = [&](explanation_method method, double lasso) {
    return explain_one(model, text, {.method = method, .most_deleted = 3, .lasso = lasso});
  };
  const explanation found = found_by(explanation_method::additive, 0);
  EXPECT_LE(found.fit_error, 1e-20);
  EXPECT_EQ(found.queries, 1 + 7 + 21 + 35);
  const double sum = std::accumulate(found.attribution.begin(), found.attribution.end(), found.base);
  EXPECT_NEAR(sum, found.score, 1e-10);
  EXPECT_EQ(found.attribution[0], 0);
  EXPECT_GE(found_by(explanation_method::linear, 0).fit_error, 0.1);
  const double penalised = found_by(explanation_method::additive, 0.01).fit_error;
  EXPECT_GT(penalised, 1e-6);
  EXPECT_LT(penalised, 0.1);
}

/// SGD draws the same minibatches for a text whatever else is explained with it.
TEST_P(explanations_test, a_text_does_not_depend_on_the_texts_beside_it) {
  counted_model model = slalom_of(planted_slalom(12, 1, 6));
  const std::vector<explained_text> texts{with_ends({3}), with_ends(counting(12))};
  for (const slalom_fit_kind fit : {slalom_fit_kind::sgd, slalom_fit_kind::least_squares}) {
    const explain_options options{.samples = 300, .fit = fit};
    EXPECT_EQ(explain(ctx_, model.model(), texts, options)[1].attribution,
              explain_one(model, texts[1], options).attribution);
  }
}

/// Not additive: pairs interact. Shapley values by their definition, over all coalitions.
TEST_P(explanations_test, shap_with_all_coalitions_gives_shapley_values) {
  const auto interacting = [](const token_sequence& sequence) {
    double sum = linear_score(sequence);
    for (std::size_t i = 2; i + 1 < sequence.size(); ++i) sum += std::cos(sequence[i] * sequence[i - 1]);
    return sum;
  };
  counted_model model{interacting};
  const token_sequence ids{7, 3, 9, 4, 11};
  const explained_text text = with_ends(ids);
  const auto value_of = [&](unsigned members) {
    token_sequence sequence{begin_id};
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if ((members >> i & 1) != 0) sequence.push_back(ids[i]);
    }
    sequence.push_back(end_id);
    return interacting(sequence);
  };
  const explanation found = explain_one(model, text, {.method = explanation_method::shap, .samples = 1000});
  const double orders = 120;  // 5!
  const double factorial[] = {1, 1, 2, 6, 24, 120};
  for (std::size_t i = 0; i < ids.size(); ++i) {
    double expected = 0;
    for (unsigned members = 0; members < 32; ++members) {
      if ((members >> i & 1) != 0) continue;
      const int size = __builtin_popcount(members);
      expected += factorial[size] * factorial[4 - size] / orders * (value_of(members | 1u << i) - value_of(members));
    }
    EXPECT_NEAR(found.attribution[i + 1], expected, 1e-10);
  }
}

TEST_P(explanations_test, shap_values_sum_to_the_difference_of_all_and_none) {
  counted_model model{[](const token_sequence& s) {
    double product = 1;
    for (const std::int32_t id : s) product *= is_ordinary(id) ? 0.7 + 0.05 * id : 1;
    return product;
  }};
  for (const std::int32_t count : {1, 2, 3, 14}) {
    const explanation found =
        explain_one(model, with_ends(counting(count)), {.method = explanation_method::shap, .samples = 200});
    const double sum = std::accumulate(found.attribution.begin(), found.attribution.end(), 0.0);
    EXPECT_NEAR(sum, found.score - found.base, 1e-12);
    EXPECT_EQ(found.base, 1);
  }
}

TEST_P(explanations_test, by_hand_on_three_tokens) {
  // p = 0.9 with "bad" (1), 0.6 with "not" (2) alone, 0.5 otherwise.
  counted_model model{[](const token_sequence& s) {
    const auto has = [&](std::int32_t id) { return std::ranges::count(s, id) > 0; };
    const double p = has(1) ? 0.9 : has(2) ? 0.6 : 0.5;
    return std::log(p / (1 - p));
  }};
  const explained_text text = with_ends({3, 1, 2});
  explanation found;
  found.attribution = {0, 0.1, 0.8, 0.3, 0};
  found.score = std::log(9.0);
  const explained_model asked = model.model();
  const perturbation_curves curves = perturbation_curves_of(asked, {&text, 1}, {&found, 1})[0];
  const std::vector<double> deletion{0.9, 0.6, 0.5, 0.5}, insertion{0.5, 0.9, 0.9, 0.9};
  EXPECT_LE(largest_difference(curves.deletion, deletion), 1e-12);
  EXPECT_LE(largest_difference(curves.insertion, insertion), 1e-12);
  EXPECT_NEAR(curves.deletion_area, (0.3 + 0.4 + 0.4) / 3, 1e-12);
  EXPECT_NEAR(curves.insertion_area, 0, 1e-12);
}

TEST_P(explanations_test, fidelity_is_zero_for_what_is_exact) {
  counted_model linear{linear_score};
  const explained_text text = with_ends({7, 3, 9, 4, 11, 2});
  const explanation shap = explain_one(linear, text, {.method = explanation_method::shap});
  EXPECT_LE(fidelity(linear.model(), {&text, 1}, {&shap, 1})[0], 1e-20);
  counted_model soft = slalom_of(planted_slalom(12, 1, 4));
  const explanation slalom = explain_one(soft, text, {});
  EXPECT_LE(fidelity(soft.model(), {&text, 1}, {&slalom, 1})[0], 1e-18);
  const explanation other = explain_one(soft, text, {.method = explanation_method::lime});
  EXPECT_GE(fidelity(soft.model(), {&text, 1}, {&other, 1})[0], 1e-4);
}

TEST_P(explanations_test, the_same_seed_gives_the_same_bits) {
  counted_model model = slalom_of(planted_slalom(40, 1, 6));
  const explained_text text = with_ends(counting(40));
  for (const explanation_method method :
       {explanation_method::slalom, explanation_method::lime, explanation_method::shap, explanation_method::linear,
        explanation_method::additive}) {
    const auto found = [&](std::uint64_t seed) {
      return explain_one(model, text, {.method = method, .samples = 300, .seed = seed}).attribution;
    };
    EXPECT_EQ(found(5), found(5));
    EXPECT_NE(found(5), found(6));
  }
}

TEST_P(explanations_test, refuses_what_cannot_be) {
  counted_model model{linear_score};
  const explained_text text = with_ends(counting(3));
  const auto refused = [&](const explained_text& wrong, const explain_options& options) {
    return message_of<invalid_argument>([&] { explain_one(model, wrong, options); });
  };
  EXPECT_NE(refused(text, {.of_class = 1}).find("class 1"), std::string::npos);
  EXPECT_NE(refused(text, {.samples = 0}).find("0 samples"), std::string::npos);
  EXPECT_NE(refused(with_ends({}), {}).find("no token"), std::string::npos);
  EXPECT_NE(refused(text, {.method = explanation_method::gradient}).find("no gradients"), std::string::npos);
  counted_model broken{[](const token_sequence& s) { return s.size() == 4 ? NAN : 1.0; }};
  EXPECT_NE(message_of<computation_error>([&] { explain_one(broken, text, {}); }).find("not finite"),
            std::string::npos);
  EXPECT_NE(message_of<invalid_argument>([] { explanation_method_named("magic"); }).find("slalom, lime"),
            std::string::npos);
}

/// Gradients of a random transformer.
TEST_P(explanations_test, integrated_gradients_are_complete) {
  transformer_config config;
  config.layers = 2, config.width = 16, config.heads = 2, config.key_size = config.value_size = 8;
  config.feed_forward = 24, config.vocabulary = 12, config.positions = 10, config.classes = 2;
  config.function = activation::gelu;
  transformer<double> network(ctx_, config);
  network.initialise(ctx_, 4);
  const explained_model model = explained_transformer(ctx_, network);
  const explained_text text{.ids = {2, 5, 7, 9, 3}, .special = {1, 0, 0, 0, 0}};
  double before = 1;
  for (const std::int64_t steps : {4, 16, 64}) {
    const explanation found =
        explain(ctx_, model, {&text, 1}, {.method = explanation_method::integrated_gradients, .steps = steps})[0];
    const double sum = std::accumulate(found.attribution.begin(), found.attribution.end(), 0.0);
    EXPECT_NEAR(found.fit_error, std::pow(sum - (found.score - found.base), 2), 1e-12);
    EXPECT_LT(std::sqrt(found.fit_error), steps == 64 ? 1e-5 : before);
    before = std::sqrt(found.fit_error) + 1e-12;
    EXPECT_EQ(found.attribution[0], 0);
  }
  const explanation norms = explain(ctx_, model, {&text, 1}, {.method = explanation_method::gradient})[0];
  for (std::size_t i = 1; i < 5; ++i) EXPECT_GT(norms.attribution[i], 0);
  // Gradient x input of a token is the derivative of the score by a factor of its embedding.
  const explanation products =
      explain(ctx_, model, {&text, 1}, {.method = explanation_method::gradient_times_input})[0];
  const std::vector<double> values = network.values().to_host();
  const auto score_with = [&](std::int64_t id, double factor) {
    std::vector<double> changed = values;
    for (const parameter& p : network.parameters()) {
      for (std::int64_t c = 0; p.name == "embedding.token" && c < config.width; ++c) {
        changed[static_cast<std::size_t>(p.offset + id * config.width + c)] *= factor;
      }
    }
    transformer<double> other(ctx_, config);
    other.values().copy_from(changed);
    return score_of_class(explained_transformer(ctx_, other).logits({&text.ids, 1}), products.of_class);
  };
  constexpr double h = 1e-5;
  for (std::size_t i = 1; i < 5; ++i) {
    const double expected = (score_with(text.ids[i], 1 + h) - score_with(text.ids[i], 1 - h)) / (2 * h);
    EXPECT_NEAR(products.attribution[i], expected, 1e-7);
  }
}

TEST(faithfulness, measures_by_hand) {
  EXPECT_NEAR(rank_correlation(std::vector{1.0, 2.0, 3.0, 4.0}, std::vector{10.0, 30.0, 20.0, 40.0}), 0.8, 1e-15);
  EXPECT_NEAR(rank_correlation(std::vector{1.0, 1.0, 2.0}, std::vector{5.0, 5.0, 1.0}), -1, 1e-15);
  EXPECT_TRUE(std::isnan(rank_correlation(std::vector{1.0, 1.0}, std::vector{5.0, 6.0})));
  EXPECT_NEAR(area_under_roc(std::vector{0.1, 0.4, 0.35, 0.8}, std::vector<std::uint8_t>{0, 0, 1, 1}), 0.75, 1e-15);
  EXPECT_NEAR(area_under_roc(std::vector{0.5, 0.5}, std::vector<std::uint8_t>{0, 1}), 0.5, 1e-15);
  EXPECT_TRUE(std::isnan(area_under_roc(std::vector{0.5}, std::vector<std::uint8_t>{1})));
  const std::vector<explained_text> texts{{.ids = {1, 1, 2}}, {.ids = {2, 3}}};
  const auto weights = naive_bayes(texts, std::vector<std::int64_t>{1, 0}, 1, 1);
  EXPECT_NEAR(weights.at(1), std::log(3.0), 1e-15);
  EXPECT_NEAR(weights.at(2), 0, 1e-15);
  EXPECT_NEAR(weights.at(3), -std::log(2.0), 1e-15);
  const mean_and_error found = mean_of(std::vector{1.0, 3.0, std::nan("")});
  EXPECT_EQ(found.count, 2);
  EXPECT_NEAR(found.mean, 2, 1e-15);
  EXPECT_NEAR(found.error, 1, 1e-15);
}

TEST_P(explanations_test, linear_fits_meet_their_optimality_conditions) {
  for (const lane_layout& layout : {ctx_.layout(), lane_layout::work_items(properties(GetParam()), 32)}) {
    context ctx(queue_, layout);
    for (const std::int64_t features : {1, 7, 41, 181}) {  // the last one is multiplied on all threads
      linear_samples p;
      p.features = features;
      const std::int64_t count = 3 * features + 5;
      p.rows = random_numbers<double>(count * features, 1);
      p.targets = random_numbers<double>(count, 2);
      p.weights = random_numbers<double>(count, 3);
      double total = 0;
      for (double& w : p.weights) total += w = w * w + 0.1;
      for (const auto& [ridge, lasso] : {std::pair{0.0, 0.0}, {0.7, 0.0}, {0.0, 0.02}}) {
        const linear_surrogate found = fit_linear(ctx, {&p, 1}, {.ridge = ridge, .lasso = lasso})[0];
        const std::vector<double> guesses = predict(found, p);
        double balance = 0;
        for (std::size_t i = 0; i < guesses.size(); ++i) balance += p.weights[i] * (p.targets[i] - guesses[i]);
        EXPECT_NEAR(balance, 0, 1e-8);
        for (std::int64_t j = 0; j < features; ++j) {
          const double w = found.coefficients[static_cast<std::size_t>(j)];
          double pull = -ridge * w;
          for (std::size_t i = 0; i < guesses.size(); ++i) {
            pull += p.weights[i] * (p.targets[i] - guesses[i]) *
                    p.rows[i * static_cast<std::size_t>(features) + static_cast<std::size_t>(j)];
          }
          if (lasso == 0) {
            EXPECT_NEAR(pull, 0, 1e-10) << features;
          } else if (w == 0) {
            EXPECT_LE(std::abs(pull), total * lasso * (1 + 1e-7));
          } else {
            EXPECT_NEAR(pull, std::copysign(total * lasso, w), 1e-6);
          }
        }
      }
    }
  }
  linear_samples wrong{.features = 2, .rows = {1, 2, 3}, .targets = {1}};
  EXPECT_NE(message_of<invalid_argument>([&] {
              fit_linear(ctx_, {&wrong, 1});
            }).find("3 numbers in rows"),
            std::string::npos);
}

}  // namespace
}  // namespace nullscope::test

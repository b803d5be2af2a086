/// Sampling, explanations and their measures, on models whose answers are known.
#include <nullscope/explain/explanations.hpp>

#include <cmath>

#include "lib/src/explain/query_sampling.hpp"
#include "tests/explain/counted_model.hpp"

namespace nullscope::test {
namespace {

class explanations_test : public explanation_fixture {};

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

}  // namespace
}  // namespace nullscope::test

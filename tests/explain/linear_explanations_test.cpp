/// LIME, Kernel SHAP and additive surrogates, on functions whose coefficients are known.
#include <nullscope/explain/explanations.hpp>
#include <nullscope/explain/slalom.hpp>

#include <cmath>
#include <numeric>

#include "tests/core/layouts.hpp"
#include "tests/explain/counted_model.hpp"

namespace nullscope::test {
namespace {

class linear_explanations_test : public explanation_fixture {};

INSTANTIATE_TEST_SUITE_P(devices, linear_explanations_test, testing::ValuesIn(devices()), device_name);

TEST_P(linear_explanations_test, lime_without_ridge_and_shap_are_exact_on_linear_functions) {
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
TEST_P(linear_explanations_test, additive_is_exact_on_functions_of_token_and_position) {
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

/// Not additive: pairs interact. Shapley values by their definition, over all coalitions.
TEST_P(linear_explanations_test, shap_with_all_coalitions_gives_shapley_values) {
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

TEST_P(linear_explanations_test, shap_values_sum_to_the_difference_of_all_and_none) {
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

TEST_P(linear_explanations_test, linear_fits_meet_their_optimality_conditions) {
  for (const lane_layout& layout : compiled({ctx_.layout(), lane_layout::work_items(properties(GetParam()), 32)})) {
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

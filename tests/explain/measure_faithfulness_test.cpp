/// All methods side by side, on a model that is linear: what they should find is known.
#include "tests/explain/counted_model.hpp"

namespace nullscope::test {
namespace {

class measure_faithfulness_test : public explanation_fixture {};

INSTANTIATE_TEST_SUITE_P(devices, measure_faithfulness_test, testing::ValuesIn(devices()), device_name);

/// Class 1 has the tokens with a weight above 0, class 0 the others; people mark tokens of large weight.
std::vector<measured_text> texts_of_weights(const std::vector<token_sequence>& all) {
  std::vector<measured_text> texts;
  for (const token_sequence& ids : all) {
    measured_text& text = texts.emplace_back(measured_text{with_ends(ids), 0, {}});
    double sum = 0;
    for (const std::int32_t id : text.text.ids) {
      if (is_ordinary(id)) sum += weight_of_id(id);
      text.marked.push_back(is_ordinary(id) && std::abs(weight_of_id(id)) > 0.6);
    }
    text.of_class = sum > 0;
  }
  return texts;
}

/// The probability of class 1 by the linear score.
explained_model two_classes() {
  return {.classes = 2, .logits = [](std::span<const token_sequence> sequences) {
            std::vector<double> logits;
            for (const token_sequence& s : sequences) {
              const double score = linear_score(s);
              logits.insert(logits.end(), {-score / 2, score / 2});
            }
            return logits;
          }};
}

TEST_P(measure_faithfulness_test, a_linear_model_is_described_exactly_by_its_weights) {
  const std::vector<measured_text> texts = texts_of_weights({{1, 5, 2, 9, 7, 3}, {4, 6, 8, 11, 10}}),
                                   others = texts_of_weights({{1, 2, 3}, {4, 5, 6}, {7, 8, 9}, {10, 11, 1}});
  std::vector<explanation_method> done;
  faithfulness_options options;
  options.methods = {explanation_method::shap, explanation_method::slalom};
  options.explain = {.of_class = 1, .samples = 200};
  options.progress = [&](explanation_method method) { done.push_back(method); };
  const std::vector<measured_method> found = measure_faithfulness(ctx_, two_classes(), texts, others, options);
  EXPECT_EQ(done, options.methods);
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found[0].name, "shap");
  EXPECT_EQ(found[1].name, "slalom v exp(s)");
  EXPECT_EQ(found[2].name, "slalom v");
  EXPECT_EQ(found[3].name, "slalom s");
  for (const double error : found[0].fidelity) EXPECT_NEAR(error, 0, 1e-16);
  EXPECT_TRUE(found[2].fidelity.empty());
  for (const double roc : found[0].roc) EXPECT_EQ(roc, 1);  // marks are the largest weights
  for (const measured_method& method : found) {
    ASSERT_EQ(method.curves.size(), 2u);
    EXPECT_EQ(method.deletion, (std::vector<double>{method.curves[0].deletion_area, method.curves[1].deletion_area}));
    EXPECT_EQ(method.naive_bayes.size(), 2u);
    EXPECT_GT(method.seconds, 0);
  }
  // The order by weight is the best there is.
  for (std::size_t i = 0; i < 2; ++i) {
    for (const measured_method& method : found) EXPECT_GE(found[0].deletion[i], method.deletion[i] - 1e-12);
  }
}

TEST_P(measure_faithfulness_test, naive_bayes_is_compared_with_the_attributions) {
  const std::vector<measured_text> texts = texts_of_weights({{1, 5, 2, 9, 7, 3}});
  const std::vector<measured_text> others = texts_of_weights({{1, 1, 2}, {3, 4, 5}, {5, 7, 7}, {9, 9, 9, 2}});
  faithfulness_options options{.methods = {explanation_method::shap}};
  options.explain.of_class = 1;
  const std::vector<measured_method> found = measure_faithfulness(ctx_, two_classes(), texts, others, options);
  std::vector<explained_text> counted;
  std::vector<std::int64_t> classes;
  for (const measured_text& other : others) {
    counted.push_back(other.text);
    classes.push_back(other.of_class);
  }
  const auto weights = naive_bayes(counted, classes, 1);
  std::vector<double> a, b;
  for (const std::int32_t id : {1, 5, 2, 9, 7, 3}) {
    if (!weights.contains(id)) continue;
    a.push_back(weight_of_id(id));
    b.push_back(weights.at(id));
  }
  EXPECT_NEAR(found[0].naive_bayes[0], rank_correlation(a, b), 1e-12);
}

TEST(mean_curves_test, every_text_counts_with_its_last_point_so_far) {
  perturbation_curves a{{0, 0.5, 1}, {0.9, 0.5, 0.1}, {0.1, 0.3, 0.9}, 0.6, 0.3},
      b{{0, 1}, {0.8, 0.2}, {0.2, 0.8}, 0.4, 0};
  const perturbation_curves mean = mean_curves(std::vector{a, b}, 4);
  EXPECT_EQ(mean.share, (std::vector<double>{0, 0.25, 0.5, 0.75, 1}));
  EXPECT_LE(largest_difference(mean.deletion, {0.85, 0.85, 0.65, 0.65, 0.15}), 1e-15);
  EXPECT_LE(largest_difference(mean.insertion, {0.15, 0.15, 0.25, 0.25, 0.85}), 1e-15);
  EXPECT_DOUBLE_EQ(mean.deletion_area, 0.5);
  EXPECT_DOUBLE_EQ(mean.insertion_area, 0.15);
}

}  // namespace
}  // namespace nullscope::test

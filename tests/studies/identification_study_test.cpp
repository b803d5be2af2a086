/// The experiments on token identifiability: which probes they ask for, and what becomes of the answers.
#include "lib/src/studies/identification_study.hpp"

#include <nlohmann/json.hpp>
#include <set>

#include "tests/core/support.hpp"

namespace nullscope::test {
namespace {

TEST(identification_units, have_every_fold_once_within_the_memory) {
  identification_study study{.experiments = {"layers", "neighbours"}, .maps = {"identity", "linear"}};
  study.distances = {"l2"};
  study.folds = 5;
  study.memory = 2 * 4 * (5 * 16 * 16 + 2 * 256 * 16) * 3;  // two folds of three layers at a time
  const std::vector<identification_unit> units = identification_units(study, {.layers = 3, .width = 16});
  std::map<std::tuple<std::string, std::string, std::int64_t>, std::multiset<std::int64_t>> folds;
  for (const identification_unit& unit : units) {
    folds[{unit.experiment, unit.map, unit.options.offset}].insert(unit.options.chosen_folds.begin(),
                                                                   unit.options.chosen_folds.end());
    EXPECT_LE(unit.options.chosen_folds.size(), unit.map == "linear" ? 2u : 5u);
    EXPECT_EQ(unit.options.distance, probe_distance::l2);
    EXPECT_GT(unit.cost(), 0);
  }
  EXPECT_EQ(folds.size(), 2u * (1 + 6));
  for (const auto& [key, of] : folds) EXPECT_EQ(of, (std::multiset<std::int64_t>{0, 1, 2, 3, 4}));
}

TEST(identification_units, of_generalisation_train_on_parts_of_the_data) {
  const identification_study study{.experiments = {"generalisation"}, .maps = {"linear"}, .distances = {"cosine"}};
  const std::vector<identification_unit> units = identification_units(study, {.layers = 12, .width = 8});
  ASSERT_EQ(units.size(), 4u);
  EXPECT_TRUE(units[0].options.on_training);
  EXPECT_TRUE(units[0].options.layers.empty());
  const double shares[] = {1, 0.5, 0.8, 0.9};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(units[i].options.training_share, shares[i]);
  for (std::size_t i = 1; i < 4; ++i) EXPECT_EQ(units[i].options.layers, std::vector<std::int64_t>{11});
}

identification_row row_of(const std::string& experiment, std::int64_t layer, std::int64_t fold, std::int64_t correct) {
  return {experiment, "linear", "cosine", layer, layer, 0, fold, 10, correct, 1e-4, 7};
}

TEST(identification_rows, are_summarised_over_folds) {
  const std::vector<identification_row> rows{row_of("layers", 1, 0, 6), row_of("layers", 2, 0, 5),
                                             row_of("layers", 1, 1, 8), row_of("steps", 1, 0, 1)};
  const std::vector<identification_summary> found = summaries_of(rows);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].folds, 2);
  EXPECT_EQ(found[0].tokens, 20);
  EXPECT_DOUBLE_EQ(found[0].mean, 0.7);
  EXPECT_DOUBLE_EQ(found[0].deviation, std::sqrt(0.02));
  EXPECT_EQ(found[1].of.tested_on, 2);
  EXPECT_EQ(found[1].deviation, 0);
  EXPECT_EQ(found[2].of.experiment, "steps");
}

TEST(identification_rows, come_back_from_a_journal) {
  const std::vector<identification_row> rows{row_of("generalisation-test-50", 1, 0, 6), row_of("layers", 2, 3, 5)};
  const std::vector<identification_row> back = from_journal(nlohmann::json::parse(to_journal(rows).dump()));
  ASSERT_EQ(back.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(key_of(back[i]), key_of(rows[i]));
    EXPECT_EQ(back[i].fold, rows[i].fold);
    EXPECT_EQ(back[i].correct, rows[i].correct);
    EXPECT_EQ(back[i].learning_rate, rows[i].learning_rate);
    EXPECT_EQ(back[i].epochs, rows[i].epochs);
  }
  EXPECT_TRUE(is_of("generalisation", rows[0]));
  EXPECT_FALSE(is_of("general", rows[0]));
}

class identification_study_test : public device_test {};
INSTANTIATE_TEST_SUITE_P(devices, identification_study_test, testing::ValuesIn(devices()), device_name);

/// Hidden tokens that are their inputs are all identified, and their neighbours are where they should be.
TEST_P(identification_study_test, the_identity_identifies_inputs) {
  const std::int64_t tokens = 5, sentences = 4, d = 3;
  const std::vector<float> x = random_numbers<float>(tokens * sentences * d, 1);
  token_states<float> states;
  states.inputs = tensor<float>(ctx_, {tokens * sentences, d}, x);
  states.hidden = tensor<float>(ctx_, {1, tokens * sentences, d}, x);
  states.sentences.assign(static_cast<std::size_t>(sentences), tokens);
  identification_study study{.experiments = {"layers", "neighbours"}, .maps = {"identity"}, .distances = {"l2"}};
  study.folds = 2;
  for (const identification_unit& unit : identification_units(study, {.layers = 1, .width = d})) {
    const std::vector<identification_row> rows = identify(ctx_, states, unit);
    ASSERT_EQ(rows.size(), 2u);
    for (const identification_row& row : rows) {
      EXPECT_EQ(row.experiment, unit.experiment);
      EXPECT_EQ(row.correct, unit.experiment == "layers" ? row.tokens : 0);
      EXPECT_EQ(row.tokens % (tokens - std::abs(row.offset)), 0);
    }
  }
}

}  // namespace
}  // namespace nullscope::test

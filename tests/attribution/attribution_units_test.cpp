/// Attribution of many texts: units, and results as text.
#include "lib/src/attribution/attribution_units.hpp"

#include "tests/attribution/attribution_support.hpp"

namespace nullscope::test {
namespace {

TEST(attribution_units_test, have_every_text_once_and_long_ones_alone) {
  const std::vector<std::int64_t> tokens{20, 300, 10, 20, 400, 10};
  const std::vector<attribution_unit> units = attribution_units(tokens, 50);
  EXPECT_EQ(units, (std::vector<attribution_unit>{{2, 5, 0, 3}, {1}, {4}}));
  for (const attribution_unit& unit : attribution_units(tokens, 5000)) EXPECT_EQ(unit.size(), 1u);
  EXPECT_TRUE(attribution_units({}, 8).empty());
}

TEST(attribution_units_test, results_come_back_from_their_text_in_single_precision) {
  attribution of;
  of.tokens = 2;
  of.layers = {1, 4};
  of.norm = {1, 0.1, 1e-30, 3, 4, 5, 6, 7};
  of.contribution = {0.25, 0.75, std::nan(""), 1, -0.0, 1, 0.5, 0.5};
  for (const bool has_errors : {false, true}) {
    if (has_errors) of.standard_error = of.norm;
    std::string text;
    append_attribution(text, of);
    ASSERT_EQ(text.back(), '\n');
    text.pop_back();
    EXPECT_EQ(text.find('\n'), std::string::npos);
    const attribution back = decode_attribution(text, 2, of.layers);
    EXPECT_EQ(back.layers, of.layers);
    EXPECT_EQ(back.standard_error.size(), of.standard_error.size());
    for (std::size_t i = 0; i < 8; ++i) {
      EXPECT_EQ(back.norm[i], static_cast<double>(static_cast<float>(of.norm[i])));
      if (std::isnan(of.contribution[i])) {
        EXPECT_TRUE(std::isnan(back.contribution[i]));
      } else {
        EXPECT_EQ(back.contribution[i], of.contribution[i]);
      }
    }
    EXPECT_THROW(decode_attribution(text.substr(8), 2, of.layers), invalid_argument);
  }
}

class attribution_computer_test : public device_test {};
INSTANTIATE_TEST_SUITE_P(devices, attribution_computer_test, testing::ValuesIn(devices()), device_name);

TEST_P(attribution_computer_test, a_text_does_not_depend_on_its_unit) {
  const transformer_config config = attribution_kinds()[0].config;
  transformer<float> model(ctx_, config);
  model.initialise(ctx_, 5);
  const std::vector<token_batch::sequence> texts{{{1, 2, 3, 4}}, {{5, 6, 7}}, {{8, 9, 10, 1, 2}}};
  attribution_computer<float> computer(ctx_, model, texts, {.samples = 3, .seed = 7});
  double last = 0;
  const std::vector<attribution> together = computer.compute({2, 0}, [&](double share) { last = share; });
  ASSERT_EQ(together.size(), 2u);
  EXPECT_EQ(last, 1);
  EXPECT_EQ(together[0].tokens, 5);
  const std::vector<attribution> alone = computer.compute({0}, {});
  ASSERT_EQ(together[1].contribution.size(), alone[0].contribution.size());
  for (std::size_t i = 0; i < alone[0].contribution.size(); ++i) {
    EXPECT_NEAR(together[1].contribution[i], alone[0].contribution[i], 1e-5);
  }
  EXPECT_GT(computer.rate(), 0);
  const std::vector<attribution_unit> units{{0}, {2, 0}};
  EXPECT_NO_THROW(computer.check(units));
  attribution_computer<float> cramped(ctx_, model, texts, {.samples = 3, .memory = 1});
  EXPECT_THROW(cramped.check(units), invalid_argument);
}

}  // namespace
}  // namespace nullscope::test

/// The statistics of the report, by hand, on texts that are small enough.
#include <nullscope/attribution/hidden_token_attribution.hpp>

#include "tests/core/support.hpp"

namespace nullscope::test {
namespace {

/// An attribution of one layer from its rows.
attribution from_rows(const std::vector<std::vector<double>>& rows) {
  attribution of;
  of.tokens = static_cast<std::int64_t>(rows.size());
  of.layers = {3};
  for (const auto& row : rows) of.contribution.insert(of.contribution.end(), row.begin(), row.end());
  return of;
}

const std::vector<std::vector<double>> three_tokens{{0.5, 0.3, 0.2}, {0.6, 0.3, 0.1}, {0.1, 0.2, 0.7}};

TEST(attribution_statistics_test, quartiles_are_interpolated) {
  const sample_summary of = summarise_sample({4, 1, 3, 2});
  EXPECT_EQ(of.count, 4);
  EXPECT_DOUBLE_EQ(of.mean, 2.5);
  EXPECT_DOUBLE_EQ(of.low, 1.75);
  EXPECT_DOUBLE_EQ(of.median, 2.5);
  EXPECT_DOUBLE_EQ(of.high, 3.25);
  EXPECT_EQ(summarise_sample({}).count, 0);
  EXPECT_DOUBLE_EQ(summarise_sample({7}).high, 7);
}

TEST(attribution_statistics_test, own_contribution_and_who_is_not_the_largest) {
  attribution_statistics all;
  const std::vector<std::string> classes{"[CLS]", "word", "word"}, tags{"[CLS]", "NN", "VB"};
  all.add(from_rows(three_tokens), {.classes = classes, .tags = tags});
  all.add(from_rows({{0.9, 0.1}, {0.2, 0.8}}));
  EXPECT_EQ(all.texts(), 2);
  EXPECT_EQ(all.layers(), std::vector<std::int64_t>{3});
  EXPECT_EQ(all.own(0).count, 5);
  EXPECT_DOUBLE_EQ(all.own(0).median, 0.7);
  EXPECT_DOUBLE_EQ(all.not_largest(0), 0.2);  // the second token of the first text
  EXPECT_EQ(all.own_by_class(0).size(), 2u);
  EXPECT_DOUBLE_EQ(all.own_by_class(0).at("word").median, 0.5);
  EXPECT_EQ(all.own_by_tag(0).size(), 3u);
  EXPECT_DOUBLE_EQ(all.own_by_tag(0).at("VB").median, 0.7);
  EXPECT_EQ(all.own_by_tag(0).at("NN").count, 1);
}

TEST(attribution_statistics_test, neighbours_by_distance_are_averaged_left_and_right_then_over_tokens) {
  attribution_statistics all;
  all.add(from_rows(three_tokens));
  // Distance 1: token 0 has one neighbour, token 1 the mean of two, token 2 one.
  EXPECT_NEAR(all.by_distance(0, 0), (0.3 + (0.6 + 0.1) / 2 + 0.2) / 3, 1e-15);
  EXPECT_NEAR(all.by_distance(0, 1), (0.2 + 0.1) / 2, 1e-15);
  EXPECT_EQ(all.by_distance(0, 2), 0);
}

TEST(attribution_statistics_test, groups_of_distances_are_those_of_the_paper) {
  constexpr std::int64_t s = 15;
  attribution of;
  of.tokens = s;
  of.layers = {1};
  of.contribution.assign(s * s, 0);
  for (std::int64_t i = 1; i < s; ++i) of.contribution[static_cast<std::size_t>(i)] = static_cast<double>(i);
  of.contribution[0] = 1;
  for (std::int64_t j = 1; j < s; ++j) {  // the other tokens have no contributions at all
    for (std::int64_t i = 0; i < s; ++i) {
      of.contribution[static_cast<std::size_t>(j * s + i)] = std::numeric_limits<double>::quiet_NaN();
    }
  }
  attribution_statistics all;
  all.add(of);
  EXPECT_EQ(all.own(0).count, 1);
  const double expected[] = {1, 2, 3, 4.5, 8, 12.5};  // 1, 2, 3, 4 to 5, 6 to 10, 11 to 14
  const char* const names[] = {"1", "2", "3", "4-5", "6-10", "11+"};
  for (int g = 0; g < attribution_statistics::distance_groups; ++g) {
    EXPECT_DOUBLE_EQ(all.by_distance(0, g), expected[g]) << g;
    EXPECT_STREQ(attribution_statistics::name_of_distance(g), names[g]);
  }
}

TEST(attribution_statistics_test, profiles_are_shares_of_all_others) {
  attribution_statistics all;
  all.add(from_rows(three_tokens), {.separator = 2});
  const std::map<std::int64_t, double> offset = all.by_offset(0);
  const double others = 0.3 + 0.2 + 0.6 + 0.1 + 0.1 + 0.2;
  EXPECT_EQ(offset.size(), 4u);
  EXPECT_NEAR(offset.at(1), (0.3 + 0.1) / others, 1e-15);
  EXPECT_NEAR(offset.at(-1), (0.6 + 0.2) / others, 1e-15);
  EXPECT_NEAR(offset.at(-2), 0.1 / others, 1e-15);
  const std::map<std::int64_t, double> first = all.to_first_token(0), around = all.to_first_token_around_separator(0);
  EXPECT_EQ(first.size(), 2u);
  EXPECT_NEAR(first.at(1), 0.6, 1e-15);
  EXPECT_NEAR(around.at(-1), 0.6, 1e-15);
  EXPECT_NEAR(around.at(0), 0.4, 1e-15);
}

TEST(attribution_statistics_test, where_nothing_else_contributes_shares_are_zero) {
  attribution_statistics all;
  all.add(from_rows({{1, 0}, {0.5, 0.5}}));  // as in a causal model
  EXPECT_EQ(all.to_first_token(0).at(1), 0);
  EXPECT_TRUE(all.to_first_token_around_separator(0).empty());
}

TEST(attribution_statistics_test, a_layer_has_its_share_of_the_sum_over_layers) {
  attribution of = from_rows(three_tokens);
  of.layers = {1, 2};
  const std::vector<double> first = of.contribution;
  for (const double x : first) of.contribution.push_back(3 * x);
  attribution_statistics all;
  all.add(of);
  EXPECT_DOUBLE_EQ(all.share_of_layers(0, 0), 0.25);
  EXPECT_DOUBLE_EQ(all.share_of_layers(1, 1), 0.75);
  EXPECT_EQ(all.share_of_layers(0, 5), 0);  // no neighbours that far away
}

TEST(attribution_statistics_test, relative_errors_are_of_the_rows) {
  attribution of = from_rows({{0.6, 0.8}, {0, 0}});
  EXPECT_TRUE(relative_errors(of).empty());
  of.standard_error = {0.03, 0.04, 0.1, 0.1};
  const std::vector<double> found = relative_errors(of);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_DOUBLE_EQ(found[0], 0.05);
  EXPECT_EQ(found[1], 0);
}

TEST(attribution_statistics_test, refuses_texts_that_do_not_fit) {
  attribution_statistics all;
  const std::vector<std::string> two{"a", "b"};
  const auto message = [&](const attribution& of, const attributed_text& about) {
    return message_of<invalid_argument>([&] { all.add(of, about); });
  };
  EXPECT_EQ(message(from_rows(three_tokens), {.classes = two}), "attribution_statistics: 2 classes for 3 tokens");
  EXPECT_EQ(message(from_rows(three_tokens), {.tags = two}), "attribution_statistics: 2 tags for 3 tokens");
  all.add(from_rows(three_tokens));
  attribution other = from_rows(three_tokens);
  other.layers = {4};
  EXPECT_EQ(message(other, {}), "attribution_statistics: the texts differ in layers");
  EXPECT_EQ(all.texts(), 1);
}

}  // namespace
}  // namespace nullscope::test

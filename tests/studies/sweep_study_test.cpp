/// The sweep as a library: its numbers against dense matrices in double, its units, texts and tables.
#include <map>
#include <nullscope/model/model_states.hpp>
#include <nullscope/studies/sweep.hpp>
#include <set>

#include "lib/src/studies/sweep/journal.hpp"
#include "lib/src/studies/sweep/random_heads.hpp"
#include "tests/attention/effective_attention_reference.hpp"

namespace nullscope::test {
namespace {

/// A row against the head whose numbers it should hold: six digits, as rows have them.
template <class T>
void expect_row(const sweep_row& row, const head_data<T>& data, const head_shape& shape, std::int64_t head) {
  const reference expected = make_reference(data, shape, head);
  const std::string where =
      fmt::format("head {} of sample {} at {}, {}", row.head, row.sample, row.length, std::string(to_string(row.kind)));
  EXPECT_EQ(row.rank, expected.rank) << where;
  EXPECT_EQ(row.null_dim, row.length - expected.rank) << where;
  EXPECT_EQ(row.null_dim_ones, std::max<std::int64_t>(0, row.length - expected.rank - 1)) << where;
  const double bound = std::is_same_v<T, double> ? 2e-6 : 2e-5;
  EXPECT_NEAR(row.pearson, expected.pearson, bound) << where;
  EXPECT_NEAR(row.raw_norm, expected.raw_norm, bound * 10 * expected.raw_norm) << where;
  EXPECT_NEAR(row.effective_norm, expected.effective_norm, bound * 10 * expected.raw_norm) << where;
  EXPECT_NEAR(row.null_norm * row.null_norm, expected.null_norm * expected.null_norm,
              bound * 10 * expected.raw_norm * expected.raw_norm)
      << where;
  EXPECT_EQ(row.pearson_error, 0) << where;
}

class sweep_study : public device_test {
 protected:
  template <class Test>
  void for_each_type(Test test) {
    test(float());
    if (has_fp64()) test(double());
  }

  /// Heads [first, first + count) of a unit, on the host.
  template <class T>
  head_data<T> random_head_data(const sweep_settings& settings, const sweep_unit& unit) {
    head_data<T> data;
    operation op(ctx_, "test: heads");
    random_heads<T> source(settings);
    const head_views<T> heads = source.make(op, unit, {unit.first, unit.count}, true).views;
    const auto to_host = [&](const view<T, 3>& from, std::vector<T>& to) {
      to.resize(static_cast<std::size_t>(from.size()));
      op.run([=, host = to.data()](sycl::queue& queue, const events& dependencies) {
        return queue.copy(from.data, host, static_cast<std::size_t>(from.size()), dependencies);
      });
    };
    to_host(heads.q, data.q);
    to_host(heads.k, data.k);
    to_host(heads.v, data.v);
    to_host(heads.h, data.h);
    op.submit_and_wait();
    return data;
  }

  template <class T>
  transformer<T> small_model() {
    transformer<T> model(ctx_, {.layers = 2,
                                .width = 12,
                                .heads = 2,
                                .key_size = 5,
                                .value_size = 6,
                                .feed_forward = 16,
                                .vocabulary = 20,
                                .positions = 24});
    model.initialise(ctx_, 3);
    return model;
  }
};

INSTANTIATE_TEST_SUITE_P(devices, sweep_study, testing::ValuesIn(devices()), device_name);

/// Texts of these lengths, no two alike.
std::vector<token_batch::sequence> texts_of(const std::vector<std::int64_t>& lengths) {
  std::vector<token_batch::sequence> texts;
  for (const std::int64_t length : lengths) {
    texts.emplace_back();
    for (std::int64_t i = 0; i < length; ++i) {
      texts.back().ids.push_back(static_cast<std::int32_t>((i * i + std::ssize(texts)) % 20));
    }
  }
  return texts;
}

TEST_P(sweep_study, random_heads_have_the_numbers_of_their_dense_matrices) {
  for_each_type([&]<class T>(T) {
    const sweep_settings settings = complete({.lengths = {20, 5},
                                              .samples = 2,
                                              .width = 12,
                                              .heads = 3,
                                              .key_size = 5,
                                              .is_double = std::is_same_v<T, double>});
    const std::vector<sweep_row> rows = sweep(*make_sweep_computer(context(queue_), settings));
    ASSERT_EQ(rows.size(), 2u * 2 * 2 * 3);
    std::size_t i = 0;
    for (const sweep_unit& unit : units_of(settings)) {
      const std::int64_t values = settings.value_size(unit.kind);
      const head_shape shape{unit.count, unit.length, unit.length, 5, values, 12};
      const head_data<T> data = random_head_data<T>(settings, unit);
      for (std::int64_t head = 0; head < unit.count; ++head) {
        EXPECT_EQ(rows[i].sample, head / 3);
        EXPECT_EQ(rows[i].head, head % 3);
        EXPECT_EQ(rows[i].layer, 0);
        expect_row(rows[i++], data, shape, head);
      }
    }
    EXPECT_EQ(i, rows.size());
  });
}

TEST_P(sweep_study, the_heads_of_a_model_have_the_numbers_of_their_dense_matrices) {
  for_each_type([&]<class T>(T) {
    const transformer<T> model = small_model<T>();
    const sweep_texts texts(texts_of({6, 14, 9, 3, 9}));
    const sweep_settings settings = complete({.lengths = {9, 14, 20}, .samples = 2, .seed = 5}, model.config(), texts);
    EXPECT_EQ(settings.lengths, (std::vector<std::int64_t>{9, 14}));  // no text has 20 tokens
    EXPECT_EQ(settings.model->samples, (std::map<std::int64_t, std::int64_t>{{9, 2}, {14, 1}, {20, 0}}));
    const auto computer = make_sweep_computer(context(queue_), settings, model, texts);
    EXPECT_EQ(computer->settings().is_double, (std::is_same_v<T, double>));
    const std::vector<sweep_row> rows = sweep(*computer);
    ASSERT_EQ(rows.size(), 3u * 2 * 2);  // texts, layers, heads
    std::size_t i = 0;
    for (const std::int64_t length : settings.lengths) {
      for (const token_batch::sequence& text : texts.choose(length, 2, 5)) {
        for (const std::int64_t layer : {1, 2}) {
          const auto states = read_states(ctx_, model, std::span(&text, 1), {.heads_of_layer = layer});
          const head_data<T> data{states[0].q, states[0].k, states[0].v, states[0].h};
          for (const std::int64_t head : {0, 1}) {
            EXPECT_EQ(rows[i].layer, layer);
            EXPECT_EQ(rows[i].head, head);
            expect_row(rows[i++], data, {2, length, length, 5, 6, 12}, head);
          }
        }
      }
    }
  });
}

TEST_P(sweep_study, units_give_the_same_rows_in_any_order) {
  const sweep_settings settings = complete({.lengths = {7, 300, 301}, .samples = 2, .width = 8, .heads = 2});
  const std::vector<sweep_unit> units = units_of(settings);
  ASSERT_GT(units.size(), 3u);
  const auto computer = make_sweep_computer(context(queue_), settings);
  std::vector<double> shares;
  const std::vector<sweep_row> rows = sweep(*computer, [&](double share) { shares.push_back(share); });
  ASSERT_EQ(shares.size(), units.size());
  EXPECT_TRUE(std::ranges::is_sorted(shares));
  EXPECT_DOUBLE_EQ(shares.back(), 1);
  std::vector<std::vector<sweep_row>> found(units.size());
  const auto other = make_sweep_computer(context(queue_), settings);
  for (std::size_t i = units.size(); i-- > 0;) {
    EXPECT_GT(other->memory_of(units[i]), 0);
    // By way of the journal, as an interrupted run has them.
    const std::string line = to_journal(other->compute(units[i])).dump();
    found[i] = from_journal(nlohmann::json::parse(line), settings, units[i]);
  }
  std::vector<sweep_row> parts;
  for (const auto& part : found) parts.insert(parts.end(), part.begin(), part.end());
  EXPECT_EQ(sweep_csv(settings, finished_rows(settings, parts)), sweep_csv(settings, rows));
}

TEST_P(sweep_study, what_progress_throws_ends_the_sweep) {
  const auto computer =
      make_sweep_computer(context(queue_), complete({.lengths = {4, 5, 6}, .samples = 1, .width = 4, .heads = 1}));
  int calls = 0;
  EXPECT_THROW(sweep(*computer,
                     [&](double) {
                       if (++calls == 2) throw std::runtime_error("stop");
                     }),
               std::runtime_error);
  EXPECT_EQ(calls, 2);
}

TEST_P(sweep_study, a_head_above_the_budget_is_refused) {
  const sweep_settings settings =
      complete({.lengths = {50}, .samples = 1, .width = 32, .heads = 4, .memory = 10 << 10});
  const auto computer = make_sweep_computer(context(queue_), settings);
  const std::string message = message_of<invalid_argument>([&] { computer->memory_of(units_of(settings)[1]); });
  EXPECT_NE(message.find("one head at length 50 (added) takes 0."), std::string::npos) << message;
}

TEST(sweep_units, cover_every_head_and_every_query_once) {
  const sweep_settings settings = complete({.lengths = {16, 5000, 40000},
                                            .samples = 3,
                                            .width = 512,
                                            .heads = 4,
                                            .query_sample = 30000,
                                            .query_block = 20000});
  std::map<std::tuple<sweep_kind, std::int64_t, std::int64_t>, std::int64_t> rows;  // of kind, length, head
  std::set<std::int64_t> divided;
  for (const sweep_unit& unit : units_of(settings)) {
    EXPECT_GT(cost_of(settings, unit), 0);
    for (std::int64_t head = unit.first; head < unit.first + unit.count; ++head) {
      std::int64_t& covered = rows[{unit.kind, unit.length, head}];
      EXPECT_EQ(covered, unit.first_row);
      covered += unit.rows;
    }
    if (unit.first_row > 0) divided.insert(unit.length);
  }
  EXPECT_EQ(rows.size(), 3u * 2 * 3 * 4);
  for (const auto& [key, covered] : rows) {
    const auto& [kind, length, head] = key;
    EXPECT_EQ(covered, settings.rows_of(kind, length)) << length << " " << head;
  }
  EXPECT_EQ(divided, (std::set<std::int64_t>{40000}));
  EXPECT_EQ(settings.rows_of(sweep_kind::concatenated, 40000), 30000);
  EXPECT_EQ(settings.rows_of(sweep_kind::concatenated, 5000), 5000);
}

TEST(sweep_rows, parts_of_a_head_become_one_row) {
  const sweep_settings settings = complete({.lengths = {4}, .samples = 1, .width = 2, .heads = 1, .query_sample = 3});
  sweep_row whole{sweep_kind::concatenated, 4, 0, 0, 0};
  whole.rank = 2;
  const std::vector<double> moments{0.5, 0.3, 0.9, 0.4, 0.2, 0.8, 0.6, 0.1, 0.7};
  whole.sums = {sum_rows(std::span(moments).first(6)), sum_rows(std::span(moments).last(3))};
  sweep_row first = whole, second = whole;
  first.sums.pop_back();
  second.sums.erase(second.sums.begin());
  const std::vector<sweep_row> expected = finished_rows(settings, {whole}),
                               found = finished_rows(settings, {first, second});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(sweep_csv(settings, found), sweep_csv(settings, expected));
  EXPECT_GT(found[0].raw_norm_error, 0);
  second.rank = 1;
  const std::string message = message_of<error>([&] { finished_rows(settings, {first, second}); });
  EXPECT_NE(message.find("disagree about its rank: 2 and 1"), std::string::npos) << message;
}

TEST(sweep_rows, a_summary_has_least_mean_and_largest) {
  std::vector<sweep_row> rows{{sweep_kind::added, 8, 0, 0, 0}, {sweep_kind::added, 8, 1, 0, 0}};
  rows[0].rank = 3;
  rows[1].rank = 6;
  rows[0].pearson = 0.5;
  rows.push_back({sweep_kind::added, 9, 0, 0, 0});
  const std::vector<sweep_summary> found = summaries_of(rows);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].samples, 2);
  EXPECT_EQ(found[0].rank.least, 3);
  EXPECT_EQ(found[0].rank.mean, 4.5);
  EXPECT_EQ(found[0].rank.most, 6);
  EXPECT_TRUE(std::isnan(found[0].pearson.mean)) << "one of the correlations was not computed";
  EXPECT_EQ(found[1].length, 9);
}

TEST(sweep_table, columns_follow_from_the_settings) {
  sweep_settings settings = complete({.lengths = {4}, .samples = 1, .width = 2, .heads = 1});
  sweep_row row{sweep_kind::concatenated, 4, 1, 0, 2};
  row.rank = 2;
  row.null_dim = 2;
  row.null_dim_ones = 1;
  row.raw_norm = 1.5;
  sweep_row logits{sweep_kind::logits, 5, 0, 0, 0};
  logits.raw_logit_rank = 3;
  logits.alternative_logit_rank = 4;
  EXPECT_EQ(sweep_csv(settings, {row, logits}),
            "length,heads_are,sample,head,rank,null_dim,null_dim_ones,pearson,raw_norm,effective_norm,null_norm\n"
            "4,concatenated,1,2,2,2,1,,1.5,,\n");
  EXPECT_EQ(sweep_csv(settings, {row, logits}, true), "length,sample,head,raw_rank,alternative_rank\n5,0,0,3,4\n");
  settings.query_sample = 2;
  settings.model = sweep_model{.layers = 1, .heads = 1, .value_size = 2};
  EXPECT_EQ(sweep_csv(settings, {}),
            "length,heads_are,sample,layer,head,rank,null_dim,null_dim_ones,pearson,raw_norm,effective_norm,null_norm,"
            "pearson_error,raw_norm_error,effective_norm_error,null_norm_error\n");
}

TEST(sweep_texts, are_chosen_by_the_seed_and_cut) {
  const sweep_texts texts(texts_of({3, 8, 12, 9, 7, 10}));
  EXPECT_EQ(texts.longest(), 12);
  const auto ids = [&](std::int64_t length, std::int64_t count, std::uint64_t seed) {
    std::vector<std::vector<std::int32_t>> all;
    for (const token_batch::sequence& text : texts.choose(length, count, seed)) all.push_back(text.ids);
    return all;
  };
  const auto two = ids(8, 2, 1);
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0].size(), 8u);
  EXPECT_NE(two[0], two[1]);
  EXPECT_EQ(two, ids(8, 2, 1));
  std::set<std::vector<std::vector<std::int32_t>>> by_seed;
  for (std::uint64_t seed = 0; seed < 10; ++seed) by_seed.insert(ids(8, 2, seed));
  EXPECT_GT(by_seed.size(), 1u);
  EXPECT_EQ(ids(8, 100, 1).size(), 4u);
  EXPECT_TRUE(ids(13, 1, 1).empty());
  EXPECT_EQ(sweep_texts({}).longest(), 0);
}

TEST(sweep_settings, that_make_no_sense_are_refused_by_name) {
  const auto refused = [](const sweep_settings& settings) {
    return message_of<invalid_argument>([&] { complete(settings); });
  };
  EXPECT_EQ(refused({.width = 30, .heads = 4}), "sweep: a width of 30 cannot be divided among 4 heads");
  EXPECT_EQ(refused({.min_length = 9, .max_length = 8}), "sweep: min_length 9 is above max_length 8");
  EXPECT_EQ(refused({.lengths = {4, 0}}), "sweep: a length of 0; expected at least 1");
  EXPECT_EQ(refused({.width = 0}), "sweep: width is 0; expected at least 1");
  EXPECT_EQ(refused({.heads_are = "stacked"}),
            "sweep: heads_are is \"stacked\"; expected \"concatenated\", \"added\" or \"both\"");
  EXPECT_NE(refused({.lengths = {std::int64_t{1} << 40}}).find("is too large"), std::string::npos);
  const sweep_texts texts(texts_of({6}));
  EXPECT_EQ(message_of<invalid_argument>([&] { complete({.lengths = {99}}, {.vocabulary = 20}, texts); }),
            "sweep: no text has 99 tokens; the longest has 6");
}

}  // namespace
}  // namespace nullscope::test

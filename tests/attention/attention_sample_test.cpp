/// Correlation and norms from some of the queries.
#include <array>
#include <nullscope/attention/attention_statistics.hpp>
#include <nullscope/attention/effective_attention.hpp>
#include <nullscope/null_space/null_space.hpp>
#include <numeric>

#include "lib/src/attention/row_block.hpp"
#include "lib/src/core/dispatch.hpp"
#include "tests/attention/effective_attention_reference.hpp"

namespace nullscope::test {
namespace {

class attention_sample_test : public device_test {
 protected:
  /// Rows of the list, or neighbours from `first` on if it is empty; of all heads (heads, m, 3).
  template <class T>
  std::vector<T> moments(context& ctx, const head_data<T>& data, const head_shape& s, std::int64_t count,
                         std::int64_t first = 0, const std::vector<std::int64_t>& rows = {},
                         const std::vector<T>& bias = {}) {
    const tensor<T> q(ctx, {s.heads, s.queries, s.dk}, data.q), k(ctx, {s.heads, s.keys, s.dk}, data.k),
        v(ctx, {s.heads, s.keys, s.dv}, data.v);
    const tensor<T> h = s.d == 0 ? tensor<T>() : tensor<T>(ctx, {s.heads, s.dv, s.d}, data.h);
    const range_tensors<T> range = s.d == 0 ? range_basis(ctx, v) : range_basis(ctx, v, h);
    const view<const T, 3> basis = range.basis;
    rank_ = range.rank;
    tensor<T> out(ctx, {s.heads, count, 3});
    const tensor<std::int64_t> list =
        rows.empty() ? tensor<std::int64_t>() : tensor<std::int64_t>(ctx, {s.heads, count}, rows);
    const tensor<T> added = bias.empty() ? tensor<T>() : tensor<T>(ctx, {s.heads, s.queries, s.keys}, bias);
    attention_row_operands<T> operands{q, k, slice(basis, 2, 0, basis.extent[2] - 1)};
    if (!rows.empty()) operands.rows = list;
    if (!bias.empty()) operands.bias = added;
    attention_row_moments(ctx, operands, out, {.causal = s.causal, .first_query = first}).wait_and_throw();
    return out.to_host();
  }

  template <class T>
  void expect_all_rows_give_the_summary(context& ctx, const head_shape& s) {
    const head_data<T> data = make_data<T>(s);
    const std::vector<T> found = moments(ctx, data, s, s.queries);
    const double eps = static_cast<double>(std::numeric_limits<T>::epsilon());
    for (std::int64_t head = 0; head < s.heads; ++head) {
      const reference expected = make_reference(data, s, head);
      const auto of_head = std::span(found).subspan(static_cast<std::size_t>(head * s.queries * 3),
                                                    static_cast<std::size_t>(s.queries * 3));
      const attention_estimate estimate = estimate_attention(
          sum_rows(of_head), {s.queries, s.keys, rank_[static_cast<std::size_t>(head)], s.causal, eps});
      const double bound = 1e4 * eps;
      EXPECT_NEAR(estimate.pearson.value, expected.pearson, bound) << s.text();
      EXPECT_NEAR(estimate.raw_norm.value, expected.raw_norm, bound * expected.raw_norm) << s.text();
      EXPECT_NEAR(estimate.effective_norm.value, expected.effective_norm, bound * expected.raw_norm) << s.text();
      EXPECT_NEAR(std::pow(estimate.null_norm.value, 2), std::pow(expected.null_norm, 2),
                  bound * std::pow(expected.raw_norm, 2))
          << s.text();
      for (const estimated_number& x :
           {estimate.pearson, estimate.raw_norm, estimate.effective_norm, estimate.null_norm}) {
        EXPECT_EQ(x.standard_error, 0);
      }
    }
  }

  std::vector<std::int64_t> rank_;
};

const std::vector<head_shape> shapes{
    {3, 7, 7, 5, 3, 9},          {2, 65, 65, 16, 8, 24},           {2, 33, 33, 16, 40, 64},
    {2, 50, 50, 8, 6, 0},        {2, 40, 40, 8, 6, 12, true},      {2, 30, 45, 8, 6, 12, true},
    {2, 45, 30, 8, 6, 12, true}, {2, 60, 60, 8, 10, 12, false, 3},
};

INSTANTIATE_TEST_SUITE_P(devices, attention_sample_test, testing::ValuesIn(devices()), device_name);

TEST_P(attention_sample_test, all_rows_give_the_summary) {
  for (const head_shape& s : shapes) {
    expect_all_rows_give_the_summary<float>(ctx_, s);
    if (has_fp64()) expect_all_rows_give_the_summary<double>(ctx_, s);
  }
}

TEST_P(attention_sample_test, all_rows_give_the_summary_in_the_layout_of_gpus) {
  if (!detail::has_gpu_layouts) GTEST_SKIP() << "this build has no layouts of GPUs";
  context ctx(queue_, lane_layout::work_items(ctx_.device(), 32));
  for (const head_shape& s : {shapes[1], shapes[6]}) expect_all_rows_give_the_summary<float>(ctx, s);
}

/// Lists, masks, biases and blocks of neighbours all give the rows of the whole.
TEST_P(attention_sample_test, rows_of_a_list_are_those_of_the_whole) {
  for (const head_shape& s : shapes) {
    const head_data<float> data = make_data<float>(s);
    const std::vector<float> bias = random_numbers<float>(s.heads * s.queries * s.keys, 7);
    for (const std::vector<float>& added : {std::vector<float>(), bias}) {
      const std::vector<float> whole = moments(ctx_, data, s, s.queries, 0, {}, added);
      constexpr std::int64_t count = 5;
      std::vector<std::int64_t> rows;
      for (std::int64_t i = 0; i < s.heads * count; ++i) rows.push_back((i * i + 3) % s.queries);
      const std::vector<float> some = moments(ctx_, data, s, count, 0, rows, added);
      const auto expect_row = [&](const std::vector<float>& part, std::int64_t at, std::int64_t in_whole) {
        for (std::int64_t i = 0; i < 3; ++i) {
          const float expected = whole[static_cast<std::size_t>(3 * in_whole + i)];
          EXPECT_NEAR(part[static_cast<std::size_t>(3 * at + i)], expected, 1e-4 * (1e-2 + std::abs(expected)))
              << s.text() << ", " << (added.empty() ? "no" : "with") << " bias, number " << i;
        }
      };
      for (std::int64_t i = 0; i < s.heads * count; ++i) {
        expect_row(some, i, i / count * s.queries + rows[static_cast<std::size_t>(i)]);
      }
      for (const std::int64_t first : {std::int64_t{0}, s.queries - count}) {
        const std::vector<float> neighbours = moments(ctx_, data, s, count, first, {}, added);
        for (std::int64_t i = 0; i < s.heads * count; ++i) {
          expect_row(neighbours, i, i / count * s.queries + first + i % count);
        }
      }
    }
  }
}

TEST_P(attention_sample_test, a_row_that_is_not_there_is_nan) {
  const head_shape s{1, 9, 9, 4, 4, 0};
  const std::vector<float> found = moments(ctx_, make_data<float>(s), s, 3, 0, {-1, 9, 4});
  for (std::size_t i = 0; i < 6; ++i) EXPECT_TRUE(std::isnan(found[i]));
  for (std::size_t i = 6; i < 9; ++i) EXPECT_FALSE(std::isnan(found[i]));
}

/// The bits of a row do not depend on which blocks are computed together.
TEST_P(attention_sample_test, blocks_of_a_long_head_have_the_bits_of_the_whole) {
  constexpr std::int64_t block = detail::attention_row_block, queries = 2 * block + 100;
  const head_shape s{1, queries, 400, 2, 2, 0};
  // Scores with a spread of hundreds: offsets change in the middle of a row.
  const head_data<float> data = make_data<float>(s, 400);
  const std::vector<float> whole = moments(ctx_, data, s, queries);
  for (const std::int64_t first : {block, 2 * block}) {
    const std::vector<float> part = moments(ctx_, data, s, queries - first, first);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 3 * first)) << first;
  }
}

TEST_P(attention_sample_test, what_does_not_fit_is_refused) {
  const head_shape s{1, 9, 9, 4, 4, 0};
  const head_data<float> data = make_data<float>(s);
  const auto complaint = [&](std::int64_t count, std::int64_t first, const std::vector<std::int64_t>& rows) {
    return message_of<invalid_argument>([&] { moments(ctx_, data, s, count, first, rows); });
  };
  EXPECT_NE(complaint(5, 5, {}).find("from query 5 on does not fit 9 queries"), std::string::npos);
  EXPECT_NE(complaint(5, -1, {}).find("from query -1 on does not fit 9 queries"), std::string::npos);
  EXPECT_NE(complaint(2, 1, {3, 4}).find("from query 1 on does not fit a list of rows"), std::string::npos);
}

/// Moments of 400 rows that look like those of a head, and the exact figures.
struct known_head {
  static constexpr std::int64_t rows = 400;
  std::vector<double> moments;
  attention_population population{rows, rows, 8};
  attention_estimate exact;

  known_head() {
    const std::vector<double> noise = random_numbers<double>(3 * rows, 11);
    for (std::size_t i = 0; i < rows; ++i) {
      const double raw = std::exp(0.8 * noise[3 * i]) * 5 / rows;
      const double effective = raw * 0.2 * std::exp(0.5 * noise[3 * i + 1]);
      moments.insert(moments.end(), {raw, effective, 0.4 + 0.3 * noise[3 * i + 2]});
    }
    exact = estimate_attention(sum_rows(moments), population);
  }

  attention_estimate sampled(std::uint64_t seed, std::int64_t count) const {
    std::vector<double> chosen;
    for (const std::int64_t row : random_rows({seed, 5}, rows, count)) {
      chosen.insert(chosen.end(), moments.begin() + 3 * row, moments.begin() + 3 * row + 3);
    }
    return estimate_attention(sum_rows(chosen), population);
  }
};

/// Over many samples: the mean is the exact figure, up to the bias of order 1/m, and (estimate - exact) / error has
/// variance 1. Both a large share of the rows, where the factor of the finite population counts, and a small one.
TEST(attention_estimates, are_unbiased_and_know_their_error) {
  const known_head head;
  constexpr int seeds = 2000;
  constexpr std::array members{&attention_estimate::pearson, &attention_estimate::raw_norm,
                               &attention_estimate::effective_norm, &attention_estimate::null_norm};
  for (const std::int64_t count : {60, 300}) {
    std::array<double, members.size()> sum{}, squares{}, errors{};
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
      const attention_estimate found = head.sampled(seed, count);
      for (std::size_t i = 0; i < members.size(); ++i) {
        const auto& [value, error] = found.*members[i];
        const double off = value - (head.exact.*members[i]).value;
        sum[i] += off;
        squares[i] += off * off;
        errors[i] += error * error;
      }
    }
    for (std::size_t i = 0; i < members.size(); ++i) {
      const double spread = std::sqrt(squares[i] / seeds);
      EXPECT_GT(spread, 0);
      EXPECT_LT(std::abs(sum[i] / seeds), 4 * spread / std::sqrt(seeds) + 0.1 * spread) << count << " rows, " << i;
      EXPECT_NEAR(std::sqrt(errors[i] / squares[i]), 1, 0.08) << count << " rows, " << i;
    }
  }
}

TEST(attention_estimates, of_all_rows_are_exact_and_of_one_row_have_no_error) {
  const known_head head;
  const attention_estimate all = head.sampled(3, known_head::rows), one = head.sampled(3, 1);
  EXPECT_EQ(all.pearson.value, head.exact.pearson.value);
  EXPECT_EQ(all.pearson.standard_error, 0);
  EXPECT_TRUE(std::isnan(one.raw_norm.standard_error));
  EXPECT_THROW(estimate_attention({}, head.population), invalid_argument);
  EXPECT_THROW(estimate_attention(sum_rows(head.moments), {10, 10, 8}), invalid_argument);
  EXPECT_THROW(sum_rows(std::vector<double>(4)), invalid_argument);
}

TEST(attention_estimates, sums_of_parts_add_up) {
  const known_head head;
  const std::span<const double> all(head.moments);
  attention_sums sums = sum_rows(all.first(300));
  sums += sum_rows(all.subspan(300));
  EXPECT_EQ(sums.rows, known_head::rows);
  const attention_estimate whole = estimate_attention(sums, head.population);
  EXPECT_NEAR(whole.pearson.value, head.exact.pearson.value, 1e-14);
}

TEST(random_rows, are_distinct_ascending_and_equally_likely) {
  std::vector<int> times(10);
  constexpr int draws = 20000;
  for (std::uint64_t seed = 0; seed < draws; ++seed) {
    const std::vector<std::int64_t> rows = random_rows({seed, 1}, 10, 3);
    ASSERT_EQ(rows.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) {
      ASSERT_TRUE(rows[i] >= 0 && rows[i] < 10 && (i == 0 || rows[i] > rows[i - 1]));
      ++times[static_cast<std::size_t>(rows[i])];
    }
  }
  for (const int count : times) EXPECT_NEAR(count, 0.3 * draws, 5 * std::sqrt(0.21 * draws));
  std::vector<std::int64_t> all(7);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(random_rows({1, 1}, 7, 7), all);
  EXPECT_EQ(random_rows({1, 1}, 7, 100), all);
  EXPECT_TRUE(random_rows({1, 1}, 7, 0).empty());
  EXPECT_THROW(random_rows({1, 1}, 7, -1), invalid_argument);
}

}  // namespace
}  // namespace nullscope::test

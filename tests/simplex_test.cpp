#include <fmt/format.h>

#include <nullscope/attention.hpp>
#include <nullscope/null_space.hpp>
#include <nullscope/simplex.hpp>
#include <nullscope/tensor.hpp>

#include "support.hpp"
#include "team_shapes.hpp"

namespace nullscope::test {
namespace {

template <class T>
constexpr double eps = static_cast<double>(std::numeric_limits<T>::epsilon());

std::span<std::byte> bytes_of(tensor<std::byte>& memory) {
  return {memory.data(), static_cast<std::size_t>(memory.size())};
}

struct shape {
  std::int64_t heads, alternatives, rows, tokens, width;  // T is (tokens, width)
};

/// Attention rows a (heads, rows, tokens) with positive entries that sum to one, and t (heads, tokens, width).
template <class T>
struct problem {
  shape s;
  std::vector<T> a, t;
  range_result<T> range;
  tensor<std::int64_t> rank;
  tensor<T> weights;

  problem(sycl::queue& queue, const shape& size)
      : s(size),
        a(random_numbers<T>(s.heads * s.rows * s.tokens, 1)),
        t(random_numbers<T>(s.heads * s.tokens * s.width, 2)) {
    for (std::int64_t i = 0; i < s.heads * s.rows; ++i) {
      T* row = a.data() + i * s.tokens;
      T sum = 0;
      for (std::int64_t j = 0; j < s.tokens; ++j) sum += row[j] = std::exp(2 * row[j]);
      for (std::int64_t j = 0; j < s.tokens; ++j) row[j] /= sum;
    }
    range =
        range_basis<T>(queue, tensor<T>(queue, {s.heads, s.tokens, s.width}, t), {.tolerance = {}, .with_ones = true});
    rank = tensor<std::int64_t>(queue, {s.heads}, range.rank_with_ones);
    weights = tensor<T>(queue, {s.heads, s.rows, s.tokens}, a);
  }
};

template <class T>
struct alternatives {
  std::vector<T> out, lambda;
  std::vector<simplex_check<T>> checks;
};

template <class T>
alternatives<T> find(sycl::queue& queue, const problem<T>& p, const simplex_options& options = {},
                     std::uint64_t seed = 9) {
  const auto& [heads, count, rows, tokens, width] = p.s;
  const std::int64_t columns = p.range.basis.shape()[2];
  tensor<T> out(queue, {heads, count, rows, tokens}), lambda(queue, {heads, count, rows});
  tensor<std::byte> scratchpad(
      queue, {simplex_alternatives_scratchpad_size<T>(queue, heads, count, rows, tokens, columns, options)});
  const tensor<T>&a = p.weights, &basis = p.range.basis;
  const tensor<std::int64_t>& rank = p.rank;
  simplex_alternatives<T>(queue, a.template as<3>(), basis.template as<3>(), rank.as<1>(), out.template as<4>(),
                          lambda.template as<3>(), {seed, 0}, bytes_of(scratchpad), options)
      .wait_and_throw();
  tensor<simplex_check<T>> checks(queue, {heads, count});
  tensor<std::byte> work(queue, {check_alternatives_scratchpad_size<T>(heads, count, rows, tokens, columns)});
  check_alternatives<T>(queue, a.template as<3>(), basis.template as<3>(), out.template as<4>(),
                        checks.template as<2>(), bytes_of(work))
      .wait_and_throw();
  return {out.to_host(), lambda.to_host(), checks.to_host()};
}

/// The three properties, from the definitions in double: sums of one, no negative weight, the same a T.
template <class T>
void expect_valid(const problem<T>& p, const alternatives<T>& found, bool moves) {
  const auto& [heads, count, rows, tokens, width] = p.s;
  double largest_move = 0;
  for (std::int64_t row = 0; row < heads * count * rows; ++row) {
    const std::int64_t head = row / rows / count, i = row % rows;
    const T* a = p.a.data() + (head * rows + i) * tokens;
    const T* other = found.out.data() + row * tokens;
    const T* t = p.t.data() + head * tokens * width;
    double sum = 0, move = 0, least = 1;
    std::vector<double> output(static_cast<std::size_t>(width), 0.0);
    for (std::int64_t j = 0; j < tokens; ++j) {
      const double difference = static_cast<double>(other[j]) - static_cast<double>(a[j]);
      sum += static_cast<double>(other[j]);
      move += std::abs(difference);
      least = std::min(least, static_cast<double>(other[j]));
      for (std::int64_t c = 0; c < width; ++c) {
        output[static_cast<std::size_t>(c)] += difference * static_cast<double>(t[j * width + c]);
      }
    }
    const double rounding = 40 * eps<T> * std::sqrt(static_cast<double>(tokens));
    EXPECT_NEAR(sum, 1, rounding);
    EXPECT_GE(least, 0);
    for (const double change : output) EXPECT_NEAR(change, 0, rounding);
    largest_move = std::max(largest_move, move);
  }
  EXPECT_EQ(largest_move > 1e-3, moves) << largest_move;
  for (const simplex_check<T>& check : found.checks) {
    EXPECT_LT(check.sum_error, 40 * eps<T> * std::sqrt(static_cast<double>(tokens)));
    EXPECT_EQ(check.below_zero, 0);
    EXPECT_LT(check.output_error, 100 * eps<T> * std::sqrt(static_cast<double>(tokens)));
  }
}

class simplex_test : public device_test {
 protected:
  ~simplex_test() override { detail::force_team_shape(std::nullopt); }
};
INSTANTIATE_TEST_SUITE_P(devices, simplex_test, testing::ValuesIn(devices()), device_name);

const std::vector<shape> shapes{{1, 1, 1, 3, 1}, {2, 3, 5, 17, 4}, {2, 2, 33, 66, 64}, {1, 4, 10, 200, 30}};

TEST_P(simplex_test, alternatives_are_valid_and_differ_in_float) {
  for (const shape& s : shapes) {
    const problem<float> p(queue_, s);
    expect_valid(p, find(queue_, p), true);
  }
}

TEST_P(simplex_test, alternatives_are_valid_and_differ_in_double) {
  if (!has_fp64()) GTEST_SKIP() << "no fp64";
  for (const shape& s : shapes) {
    const problem<double> p(queue_, s);
    expect_valid(p, find(queue_, p), true);
  }
}

TEST_P(simplex_test, alternatives_are_valid_in_the_layouts_of_gpus) {
  for (const auto layout : {detail::team_shape::group_256, detail::team_shape::group_32, detail::team_shape::scalar}) {
    SCOPED_TRACE(name_of(layout));
    detail::force_team_shape(layout);
    for (const shape& s : {shapes[1], shape{1, 2, 3, 300, 20}}) {  // rows shorter and longer than the largest team
      const problem<float> p(queue_, s);
      expect_valid(p, find(queue_, p), true);
    }
  }
}

TEST_P(simplex_test, coefficients_of_an_explicit_basis_are_valid_too) {
  for (const shape& s : shapes) {
    const problem<float> p(queue_, s);
    expect_valid(p, find(queue_, p, {.draw = simplex_draw::coefficients}), true);
  }
}

TEST_P(simplex_test, the_largest_step_puts_a_zero_into_each_row_and_a_smaller_one_does_not) {
  const problem<float> p(queue_, shapes[1]);
  const auto full = find(queue_, p), half = find(queue_, p, {.share = 0.5});
  for (std::size_t row = 0; row < full.lambda.size(); ++row) {
    const auto first = static_cast<std::ptrdiff_t>(row) * p.s.tokens;
    EXPECT_LT(*std::min_element(full.out.begin() + first, full.out.begin() + first + p.s.tokens), 1e-7f);
    EXPECT_GT(*std::min_element(half.out.begin() + first, half.out.begin() + first + p.s.tokens), 1e-5f);
    EXPECT_FLOAT_EQ(half.lambda[row], full.lambda[row] / 2);
  }
}

TEST_P(simplex_test, nothing_moves_where_the_null_space_is_empty) {
  const problem<float> p(queue_, {2, 2, 4, 8, 10});
  for (const auto draw : {simplex_draw::projected, simplex_draw::coefficients}) {
    const auto found = find(queue_, p, {.draw = draw});
    expect_valid(p, found, false);
    EXPECT_EQ(found.lambda, std::vector<float>(found.lambda.size(), 0.0f));
  }
}

TEST_P(simplex_test, a_weight_of_zero_that_would_shrink_allows_no_step) {
  problem<float> p(queue_, {1, 20, 1, 6, 1});
  p.a = {0, 0.2f, 0.2f, 0.2f, 0.2f, 0.2f};
  p.weights = tensor<float>(queue_, {1, 1, 6}, p.a);
  const auto found = find(queue_, p);
  expect_valid(p, found, true);
  const auto still = std::count(found.lambda.begin(), found.lambda.end(), 0.0f);
  EXPECT_GT(still, 2);  // half of the directions would make it negative
  EXPECT_LT(still, 18);
}

TEST_P(simplex_test, nan_spreads_to_its_own_row) {
  problem<float> p(queue_, {1, 1, 3, 20, 2});
  p.a[20 + 7] = NAN;
  p.weights = tensor<float>(queue_, {1, 3, 20}, p.a);
  const auto found = find(queue_, p);
  for (std::size_t i = 0; i < 60; ++i) EXPECT_EQ(std::isnan(found.out[i]), i / 20 == 1) << i;
  for (std::size_t row = 0; row < 3; ++row) EXPECT_EQ(std::isnan(found.lambda[row]), row == 1) << row;
  EXPECT_TRUE(std::isnan(found.checks[0].sum_error));
}

TEST_P(simplex_test, a_head_whose_rank_is_not_known_gets_nan) {
  problem<float> p(queue_, {2, 2, 3, 20, 4});
  for (const auto draw : {simplex_draw::projected, simplex_draw::coefficients}) {
    p.rank = tensor<std::int64_t>(queue_, {2}, p.range.rank_with_ones);
    const auto known = find(queue_, p, {.draw = draw});
    p.rank = tensor<std::int64_t>(queue_, {2}, std::vector<std::int64_t>{p.range.rank_with_ones[0], -1});
    const auto found = find(queue_, p, {.draw = draw});
    for (std::size_t i = 0; i < found.out.size(); ++i) {
      EXPECT_TRUE(i < 120 ? found.out[i] == known.out[i] : std::isnan(found.out[i])) << i;
    }
    for (std::size_t i = 0; i < found.lambda.size(); ++i) {
      EXPECT_TRUE(i < 6 ? found.lambda[i] == known.lambda[i] : std::isnan(found.lambda[i])) << i;
    }
  }
}

TEST_P(simplex_test, values_that_overflow_give_nan_and_no_alternatives) {
  std::vector<float> t(8 * 4);
  for (std::size_t i = 0; i < t.size(); ++i) t[i] = i / 4 % 2 == 0 ? 1e38f : -1e38f;  // sigma is 5.7e38
  const tensor<float> heads(queue_, {1, 8, 4}, t), a(queue_, {1, 1, 8}, std::vector<float>(8, 0.125f));
  tensor<float> basis(queue_, {1, 8, 5}, std::vector<float>(40, 0.0f)), s(queue_, {1, 4});
  tensor<float> out(queue_, {1, 1, 1, 8}), lambda(queue_, {1, 1, 1});
  tensor<std::int64_t> rank(queue_, {1});
  tensor<std::int32_t> status(queue_, {1});
  const view<const std::int64_t, 1> found = rank.as<1>();
  tensor<std::byte> for_range(queue_, {range_basis_scratchpad_size<float>(queue_, 1, 8, 4)}),
      for_ones(queue_, {append_ones_scratchpad_size<float>(1, 8)}),
      for_rows(queue_, {simplex_alternatives_scratchpad_size<float>(queue_, 1, 1, 1, 8, 5)});
  range_basis<float>(queue_, heads.as<3>(), slice(basis.as<3>(), 2, 0, 4), s.as<2>(), rank.as<1>(), status.as<1>(),
                     bytes_of(for_range));
  append_ones<float>(queue_, basis.as<3>(), found, rank.as<1>(), bytes_of(for_ones));
  simplex_alternatives<float>(queue_, a.as<3>(), basis.as<3>(), found, out.as<4>(), lambda.as<3>(), {9, 0},
                              bytes_of(for_rows))
      .wait_and_throw();
  EXPECT_EQ(rank.to_host()[0], -1);
  for (const float x : out.to_host()) EXPECT_TRUE(std::isnan(x));
  EXPECT_TRUE(std::isnan(lambda.to_host()[0]));
}

TEST_P(simplex_test, rows_without_tokens_do_not_move) {
  tensor<float> a(queue_, {2, 3, 0}), basis(queue_, {2, 0, 1}), out(queue_, {2, 4, 3, 0});
  const tensor<std::int64_t> rank(queue_, {2}, std::vector<std::int64_t>{0, -1});
  for (const auto draw : {simplex_draw::projected, simplex_draw::coefficients}) {
    tensor<float> lambda(queue_, {2, 4, 3}, std::vector<float>(24, 7.0f));
    tensor<std::byte> scratchpad(queue_,
                                 {simplex_alternatives_scratchpad_size<float>(queue_, 2, 4, 3, 0, 1, {.draw = draw})});
    simplex_alternatives<float>(queue_, a.as<3>(), basis.as<3>(), rank.as<1>(), out.as<4>(), lambda.as<3>(), {},
                                bytes_of(scratchpad), {.draw = draw})
        .wait_and_throw();
    const std::vector<float> got = lambda.to_host();
    for (std::size_t i = 0; i < 24; ++i) EXPECT_TRUE(i < 12 ? got[i] == 0 : std::isnan(got[i])) << i << " " << got[i];
  }
}

TEST_P(simplex_test, seeds_decide_and_nothing_else) {
  const problem<float> p(queue_, shapes[1]);
  EXPECT_EQ(find(queue_, p, {}, 1).out, find(queue_, p, {}, 1).out);
  EXPECT_NE(find(queue_, p, {}, 1).out, find(queue_, p, {}, 2).out);
}

TEST_P(simplex_test, the_check_takes_rounding_for_rounding_however_small_the_step) {
  const problem<float> p(queue_, {2, 3, 5, 66, 20});
  for (const double share : {1e-3, 1e-6, 1e-9}) {
    for (const simplex_check<float>& check : find(queue_, p, {.share = share}).checks) {
      EXPECT_LT(check.output_error, 100 * eps<float> * std::sqrt(66.0)) << share;
    }
  }
}

TEST_P(simplex_test, the_check_sees_what_is_wrong) {
  const problem<float> p(queue_, {1, 1, 2, 12, 3});
  const tensor<float>&a = p.weights, &basis = p.range.basis;
  std::vector<float> wrong = p.a;
  wrong[3] = -0.25f;
  const tensor<float> out(queue_, {1, 1, 2, 12}, wrong);
  tensor<simplex_check<float>> checks(queue_, {1, 1});
  tensor<std::byte> work(queue_, {check_alternatives_scratchpad_size<float>(1, 1, 2, 12, 4)});
  check_alternatives<float>(queue_, a.as<3>(), basis.as<3>(), out.as<4>(), checks.as<2>(), bytes_of(work))
      .wait_and_throw();
  const simplex_check<float> check = checks.to_host()[0];
  EXPECT_NEAR(check.sum_error, p.a[3] + 0.25f, 1e-6);
  EXPECT_EQ(check.below_zero, 0.25f);
  EXPECT_GT(check.output_error, 0.1f);
}

TEST_P(simplex_test, refuses_bad_shapes_and_shares) {
  tensor<float> a(queue_, {2, 3, 8}), basis(queue_, {2, 7, 4}), out(queue_, {2, 1, 3, 8}), lambda(queue_, {2, 1, 3});
  tensor<std::int64_t> rank(queue_, {2});
  EXPECT_NE(
      message_of<invalid_argument>([&] {
        simplex_alternatives<float>(queue_, a.as<3>(), basis.as<3>(), rank.as<1>(), out.as<4>(), lambda.as<3>(), {},
                                    {});
      })
          .find("simplex_alternatives: dimension 2 of a (2, 3, 8) with strides (24, 8, 1) differs from dimension 1 "
                "of basis (2, 7, 4)"),
      std::string::npos);
  tensor<float> fits(queue_, {2, 8, 4});
  EXPECT_EQ(message_of<invalid_argument>([&] {
              simplex_alternatives<float>(queue_, a.as<3>(), fits.as<3>(), rank.as<1>(), out.as<4>(), lambda.as<3>(),
                                          {}, {}, {.share = 1.5});
            }),
            "simplex_alternatives: the share of lambda_max is 1.5, and must be in [0, 1]");
}

/// Softmax of random scores q k^T / sqrt(dk), (batch, tokens, tokens).
template <class T>
std::vector<T> attention_of_rank(std::int64_t batch, std::int64_t tokens, std::int64_t dk) {
  const auto q = random_numbers<T>(batch * tokens * dk, 3), k = random_numbers<T>(batch * tokens * dk, 4);
  std::vector<T> a;
  for (std::int64_t i = 0; i < batch * tokens; ++i) {
    std::vector<double> row;
    double sum = 0;
    for (std::int64_t j = 0; j < tokens; ++j) {
      double score = 0;
      for (std::int64_t c = 0; c < dk; ++c) {
        score += static_cast<double>(q[static_cast<std::size_t>(i * dk + c)]) *
                 static_cast<double>(k[static_cast<std::size_t>((i / tokens * tokens + j) * dk + c)]);
      }
      sum += std::exp(score);
      row.push_back(std::exp(score));
    }
    for (const double w : row) a.push_back(static_cast<T>(w / sum));
  }
  return a;
}

template <class T>
std::vector<std::int64_t> logit_ranks(sycl::queue& queue, const std::vector<T>& a, std::int64_t batch,
                                      std::int64_t rows, std::int64_t tokens) {
  const tensor<T> weights(queue, {batch, rows, tokens}, a);
  tensor<std::int64_t> rank(queue, {batch});
  tensor<std::byte> scratchpad(queue, {logit_rank_scratchpad_size<T>(queue, batch, rows, tokens)});
  logit_rank<T>(queue, weights.template as<3>(), rank.as<1>(), bytes_of(scratchpad)).wait_and_throw();
  return rank.to_host();
}

TEST_P(simplex_test, logits_of_softmax_have_the_rank_of_the_keys) {
  EXPECT_EQ(logit_ranks(queue_, attention_of_rank<float>(3, 70, 8), 3, 70, 70), (std::vector<std::int64_t>{8, 8, 8}));
  if (has_fp64()) {
    EXPECT_EQ(logit_ranks(queue_, attention_of_rank<double>(2, 31, 5), 2, 31, 31), (std::vector<std::int64_t>{5, 5}));
  }
  EXPECT_EQ(logit_ranks(queue_, std::vector<float>(12, 0.25f), 1, 3, 4), std::vector<std::int64_t>{0});
}

TEST_P(simplex_test, logits_of_alternatives_have_a_higher_rank) {
  const problem<float> p(queue_, {2, 1, 40, 40, 8});
  const auto found = find(queue_, p, {.share = 0.9});
  for (const std::int64_t rank : logit_ranks(queue_, found.out, 2, 40, 40)) EXPECT_EQ(rank, 39);
}

TEST_P(simplex_test, weights_of_zero_have_no_logit_rank) {
  auto a = attention_of_rank<float>(2, 9, 3);
  a[5] = 0;
  EXPECT_EQ(logit_ranks(queue_, a, 2, 9, 9), (std::vector<std::int64_t>{-1, 3}));
}

}  // namespace
}  // namespace nullscope::test

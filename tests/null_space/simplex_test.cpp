#include <fmt/format.h>

#include <nullscope/attention/attention.hpp>
#include <nullscope/core/tensor.hpp>
#include <nullscope/null_space/null_space.hpp>
#include <nullscope/null_space/simplex.hpp>

#include "tests/core/layouts.hpp"
#include "tests/core/support.hpp"

namespace nullscope::test {
namespace {

template <class T>
constexpr double eps = static_cast<double>(std::numeric_limits<T>::epsilon());

struct shape {
  std::int64_t heads, alternatives, rows, tokens, width;  // T is (tokens, width)
};

/// Attention rows a (heads, rows, tokens) with positive entries that sum to one, and t (heads, tokens, width).
template <class T>
struct problem {
  shape s;
  std::vector<T> a, t;
  range_tensors<T> range;
  tensor<std::int64_t> rank;
  tensor<T> weights;

  problem(context& ctx, const shape& size)
      : s(size),
        a(random_numbers<T>(s.heads * s.rows * s.tokens, 1)),
        t(random_numbers<T>(s.heads * s.tokens * s.width, 2)) {
    for (std::int64_t i = 0; i < s.heads * s.rows; ++i) {
      T* row = a.data() + i * s.tokens;
      T sum = 0;
      for (std::int64_t j = 0; j < s.tokens; ++j) sum += row[j] = std::exp(2 * row[j]);
      for (std::int64_t j = 0; j < s.tokens; ++j) row[j] /= sum;
    }
    range = range_basis<T>(ctx, tensor<T>(ctx, {s.heads, s.tokens, s.width}, t), {.tolerance = {}, .with_ones = true});
    rank = tensor<std::int64_t>(ctx, {s.heads}, range.rank_with_ones);
    weights = tensor<T>(ctx, {s.heads, s.rows, s.tokens}, a);
  }
};

template <class T>
struct found_alternatives {
  std::vector<T> out, lambda;
  std::vector<simplex_check<T>> checks;
};

template <class T>
found_alternatives<T> find(context& ctx, const problem<T>& p, simplex_options options = {}, std::uint64_t seed = 9) {
  const auto& [heads, count, rows, tokens, width] = p.s;
  tensor<T> out(ctx, {heads, count, rows, tokens}), lambda(ctx, {heads, count, rows});
  options.stream.seed = seed;
  simplex_alternatives(ctx, simplex_operands<T>{p.weights, p.range.basis, p.rank}, simplex_results<T>{out, lambda},
                       options)
      .wait_and_throw();
  tensor<simplex_check<T>> checks(ctx, {heads, count});
  check_alternatives(ctx, alternatives<T>{p.weights, p.range.basis, out}, checks).wait_and_throw();
  return {out.to_host(), lambda.to_host(), checks.to_host()};
}

/// The three properties, from the definitions in double: sums of one, no negative weight, the same a T.
template <class T>
void expect_valid(const problem<T>& p, const found_alternatives<T>& found, bool moves) {
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

class simplex_test : public device_test {};
INSTANTIATE_TEST_SUITE_P(devices, simplex_test, testing::ValuesIn(devices()), device_name);

const std::vector<shape> shapes{{1, 1, 1, 3, 1}, {2, 3, 5, 17, 4}, {2, 2, 33, 66, 64}, {1, 4, 10, 200, 30}};

TEST_P(simplex_test, alternatives_are_valid_and_differ_in_float) {
  for (const shape& s : shapes) {
    const problem<float> p(ctx_, s);
    expect_valid(p, find(ctx_, p), true);
  }
}

TEST_P(simplex_test, alternatives_are_valid_and_differ_in_double) {
  if (!has_fp64()) GTEST_SKIP() << "no fp64";
  for (const shape& s : shapes) {
    const problem<double> p(ctx_, s);
    expect_valid(p, find(ctx_, p), true);
  }
}

TEST_P(simplex_test, alternatives_are_valid_in_the_layouts_of_gpus) {
  for (const lane_layout& layout : row_layouts(GetParam())) {
    if (layout.has_vectors()) continue;
    SCOPED_TRACE(name_of(layout));
    context ctx(queue_, layout);
    for (const shape& s : {shapes[1], shape{1, 2, 3, 300, 20}}) {  // rows shorter and longer than the largest group
      const problem<float> p(ctx_, s);
      expect_valid(p, find(ctx, p), true);
    }
  }
}

TEST_P(simplex_test, coefficients_of_an_explicit_basis_are_valid_too) {
  for (const shape& s : shapes) {
    const problem<float> p(ctx_, s);
    expect_valid(p, find(ctx_, p, {.draw = simplex_draw::coefficients}), true);
  }
}

TEST_P(simplex_test, the_largest_step_puts_a_zero_into_each_row_and_a_smaller_one_does_not) {
  const problem<float> p(ctx_, shapes[1]);
  const auto full = find(ctx_, p), half = find(ctx_, p, {.share = 0.5});
  for (std::size_t row = 0; row < full.lambda.size(); ++row) {
    const auto first = static_cast<std::ptrdiff_t>(row) * p.s.tokens;
    EXPECT_LT(*std::min_element(full.out.begin() + first, full.out.begin() + first + p.s.tokens), 1e-7f);
    EXPECT_GT(*std::min_element(half.out.begin() + first, half.out.begin() + first + p.s.tokens), 1e-5f);
    EXPECT_FLOAT_EQ(half.lambda[row], full.lambda[row] / 2);
  }
}

TEST_P(simplex_test, nothing_moves_where_the_null_space_is_empty) {
  const problem<float> p(ctx_, {2, 2, 4, 8, 10});
  for (const auto draw : {simplex_draw::projected, simplex_draw::coefficients}) {
    const auto found = find(ctx_, p, {.draw = draw});
    expect_valid(p, found, false);
    EXPECT_EQ(found.lambda, std::vector<float>(found.lambda.size(), 0.0f));
  }
}

TEST_P(simplex_test, a_weight_of_zero_that_would_shrink_allows_no_step) {
  problem<float> p(ctx_, {1, 20, 1, 6, 1});
  p.a = {0, 0.2f, 0.2f, 0.2f, 0.2f, 0.2f};
  p.weights = tensor<float>(ctx_, {1, 1, 6}, p.a);
  const auto found = find(ctx_, p);
  expect_valid(p, found, true);
  const auto still = std::count(found.lambda.begin(), found.lambda.end(), 0.0f);
  EXPECT_GT(still, 2);  // half of the directions would make it negative
  EXPECT_LT(still, 18);
}

TEST_P(simplex_test, nan_spreads_to_its_own_row) {
  problem<float> p(ctx_, {1, 1, 3, 20, 2});
  p.a[20 + 7] = NAN;
  p.weights = tensor<float>(ctx_, {1, 3, 20}, p.a);
  const auto found = find(ctx_, p);
  for (std::size_t i = 0; i < 60; ++i) EXPECT_EQ(std::isnan(found.out[i]), i / 20 == 1) << i;
  for (std::size_t row = 0; row < 3; ++row) EXPECT_EQ(std::isnan(found.lambda[row]), row == 1) << row;
  EXPECT_TRUE(std::isnan(found.checks[0].sum_error));
}

TEST_P(simplex_test, a_head_whose_rank_is_not_known_gets_nan) {
  problem<float> p(ctx_, {2, 2, 3, 20, 4});
  for (const auto draw : {simplex_draw::projected, simplex_draw::coefficients}) {
    p.rank = tensor<std::int64_t>(ctx_, {2}, p.range.rank_with_ones);
    const auto known = find(ctx_, p, {.draw = draw});
    p.rank = tensor<std::int64_t>(ctx_, {2}, std::vector<std::int64_t>{p.range.rank_with_ones[0], -1});
    const auto found = find(ctx_, p, {.draw = draw});
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
  const tensor<float> heads(ctx_, {1, 8, 4}, t), a(ctx_, {1, 1, 8}, std::vector<float>(8, 0.125f));
  tensor<float> basis(ctx_, {1, 8, 5}, std::vector<float>(40, 0.0f)), s(ctx_, {1, 4});
  tensor<float> out(ctx_, {1, 1, 1, 8}), lambda(ctx_, {1, 1, 1});
  tensor<std::int64_t> rank(ctx_, {1});
  tensor<std::int32_t> status(ctx_, {1});
  range_basis(ctx_, {heads}, {slice(basis.as<3>(), 2, 0, 4), s, rank, status});
  append_ones(ctx_, rank, {basis, rank});
  simplex_alternatives(ctx_, {a, basis, rank}, {out, lambda}, {.stream = {9, 0}}).wait_and_throw();
  EXPECT_EQ(rank.to_host()[0], -1);
  for (const float x : out.to_host()) EXPECT_TRUE(std::isnan(x));
  EXPECT_TRUE(std::isnan(lambda.to_host()[0]));
}

TEST_P(simplex_test, rows_without_tokens_do_not_move) {
  tensor<float> a(ctx_, {2, 3, 0}), basis(ctx_, {2, 0, 1}), out(ctx_, {2, 4, 3, 0});
  const tensor<std::int64_t> rank(ctx_, {2}, std::vector<std::int64_t>{0, -1});
  for (const auto draw : {simplex_draw::projected, simplex_draw::coefficients}) {
    tensor<float> lambda(ctx_, {2, 4, 3}, std::vector<float>(24, 7.0f));
    simplex_alternatives(ctx_, {a, basis, rank}, {out, lambda}, {.draw = draw}).wait_and_throw();
    const std::vector<float> got = lambda.to_host();
    for (std::size_t i = 0; i < 24; ++i) EXPECT_TRUE(i < 12 ? got[i] == 0 : std::isnan(got[i])) << i << " " << got[i];
  }
}

TEST_P(simplex_test, seeds_decide_and_nothing_else) {
  const problem<float> p(ctx_, shapes[1]);
  EXPECT_EQ(find(ctx_, p, {}, 1).out, find(ctx_, p, {}, 1).out);
  EXPECT_NE(find(ctx_, p, {}, 1).out, find(ctx_, p, {}, 2).out);
}

TEST_P(simplex_test, the_check_takes_rounding_for_rounding_however_small_the_step) {
  const problem<float> p(ctx_, {2, 3, 5, 66, 20});
  for (const double share : {1e-3, 1e-6, 1e-9}) {
    for (const simplex_check<float>& check : find(ctx_, p, {.share = share}).checks) {
      EXPECT_LT(check.output_error, 100 * eps<float> * std::sqrt(66.0)) << share;
    }
  }
}

TEST_P(simplex_test, the_check_sees_what_is_wrong) {
  const problem<float> p(ctx_, {1, 1, 2, 12, 3});
  std::vector<float> wrong = p.a;
  wrong[3] = -0.25f;
  const tensor<float> out(ctx_, {1, 1, 2, 12}, wrong);
  tensor<simplex_check<float>> checks(ctx_, {1, 1});
  check_alternatives(ctx_, {p.weights, p.range.basis, out}, checks).wait_and_throw();
  const simplex_check<float> check = checks.to_host()[0];
  EXPECT_NEAR(check.sum_error, p.a[3] + 0.25f, 1e-6);
  EXPECT_EQ(check.below_zero, 0.25f);
  EXPECT_GT(check.output_error, 0.1f);
}

TEST_P(simplex_test, refuses_bad_shapes_and_shares) {
  tensor<float> a(ctx_, {2, 3, 8}), basis(ctx_, {2, 7, 4}), out(ctx_, {2, 1, 3, 8}), lambda(ctx_, {2, 1, 3});
  tensor<std::int64_t> rank(ctx_, {2});
  EXPECT_NE(
      message_of<invalid_argument>([&] {
        simplex_alternatives(ctx_, {a, basis, rank}, {out, lambda});
      })
          .find("simplex_alternatives: dimension 2 of a (2, 3, 8) with strides (24, 8, 1) differs from dimension 1 "
                "of basis (2, 7, 4)"),
      std::string::npos);
  tensor<float> fits(ctx_, {2, 8, 4});
  EXPECT_EQ(message_of<invalid_argument>([&] {
              simplex_alternatives(ctx_, {a, fits, rank}, {out, lambda}, {.share = 1.5});
            }),
            "simplex_alternatives: the share of lambda_max is 1.5, and must be in [0, 1]");
  EXPECT_EQ(message_of<invalid_argument>([&] {
              logit_rank(ctx_, tensor<float>(ctx_, {2, 3, 0}), rank);
            }),
            "logit_rank: a (2, 3, 0) with strides (0, 0, 1) has matrices without elements");
  EXPECT_EQ(message_of<invalid_argument>([&] { logit_rank(ctx_, a, rank, {.absolute = NAN}); }),
            "logit_rank: tolerances (relative -1, absolute nan) are NaN or negative");
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
std::vector<std::int64_t> logit_ranks(context& ctx, const std::vector<T>& a, std::int64_t batch, std::int64_t rows,
                                      std::int64_t tokens) {
  const tensor<T> weights(ctx, {batch, rows, tokens}, a);
  tensor<std::int64_t> rank(ctx, {batch});
  logit_rank(ctx, weights, rank).wait_and_throw();
  return rank.to_host();
}

TEST_P(simplex_test, logits_of_softmax_have_the_rank_of_the_keys) {
  EXPECT_EQ(logit_ranks(ctx_, attention_of_rank<float>(3, 70, 8), 3, 70, 70), (std::vector<std::int64_t>{8, 8, 8}));
  if (has_fp64()) {
    EXPECT_EQ(logit_ranks(ctx_, attention_of_rank<double>(2, 31, 5), 2, 31, 31), (std::vector<std::int64_t>{5, 5}));
  }
  EXPECT_EQ(logit_ranks(ctx_, std::vector<float>(12, 0.25f), 1, 3, 4), std::vector<std::int64_t>{0});
}

TEST_P(simplex_test, logits_of_alternatives_have_a_higher_rank) {
  const problem<float> p(ctx_, {2, 1, 40, 40, 8});
  const auto found = find(ctx_, p, {.share = 0.9});
  for (const std::int64_t rank : logit_ranks(ctx_, found.out, 2, 40, 40)) EXPECT_EQ(rank, 39);
}

TEST_P(simplex_test, weights_of_zero_have_no_logit_rank) {
  auto a = attention_of_rank<float>(2, 9, 3);
  a[5] = 0;
  EXPECT_EQ(logit_ranks(ctx_, a, 2, 9, 9), (std::vector<std::int64_t>{-1, 3}));
}

}  // namespace
}  // namespace nullscope::test

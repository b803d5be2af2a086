/// structure_norm: the draft's examples, norm axioms, dense and streamed against plain loops.
#include <nullscope/structure/structure_norm.hpp>

#include "tests/core/layouts.hpp"
#include "tests/core/support.hpp"

namespace nullscope::test {
namespace {

constexpr double bound = 10;

class structure_norm_test : public device_test {};
INSTANTIATE_TEST_SUITE_P(devices, structure_norm_test, testing::ValuesIn(devices()), device_name);

/// S x S with `value` on the diagonal or antidiagonal, `other` elsewhere.
template <class T>
std::vector<T> diagonal(std::int64_t size, bool is_anti, T value, T other) {
  std::vector<T> x(static_cast<std::size_t>(size * size), other);
  for (std::int64_t i = 0; i < size; ++i) x[static_cast<std::size_t>(i * size + (is_anti ? size - 1 - i : i))] = value;
  return x;
}

template <class T>
T norm_of(context& ctx, const std::vector<T>& a, const std::vector<T>& w, const std::vector<T>& b = {}) {
  const tensor<T> left(ctx, {4, 4}, a), weights(ctx, {4, 4}, w);
  const tensor<T> right = b.empty() ? tensor<T>() : tensor<T>(ctx, {4, 4}, b);
  tensor<T> out(ctx, {1});
  structure_norm(ctx, structure_norm_operands<T>{left, weights, right}, out).wait_and_throw();
  return out.to_host()[0];
}

TEST_P(structure_norm_test, gives_the_values_of_the_draft) {
  const float epsilon = 0x1p-6f;
  const std::vector<float> reversal = diagonal<float>(4, true, 1, 0), identity = diagonal<float>(4, false, 1, 0);
  // The draft gives |A_1| = 1/4 and |A_2| = epsilon / 4, which belong to weights on the antidiagonal. With the weights
  // that it writes, w_ii = 1, the formula gives the two values the other way round.
  const std::vector<float> on_anti = diagonal(4, true, 1.f, epsilon), on_diagonal = diagonal(4, false, 1.f, epsilon);
  EXPECT_EQ(norm_of(ctx_, reversal, on_anti), 0.25f);
  EXPECT_EQ(norm_of(ctx_, identity, on_anti), epsilon / 4);
  EXPECT_EQ(norm_of(ctx_, reversal, on_diagonal), epsilon / 4);
  EXPECT_EQ(norm_of(ctx_, identity, on_diagonal), 0.25f);
  EXPECT_EQ(norm_of(ctx_, reversal, on_anti, identity), (1 + epsilon) / 4);

  std::vector<float> perturbed = reversal;
  perturbed[0] = perturbed[11] = 0.1f;
  EXPECT_EQ(norm_of(ctx_, reversal, on_anti, perturbed), 0.2f * epsilon / 16);
  EXPECT_FLOAT_EQ(norm_of(ctx_, perturbed, on_anti), (4 + 0.2f * epsilon) / 16);
}

/// 1 / (rows columns) sum w |a - b|
double reference(const double* a, const double* b, const double* w, std::int64_t entries) {
  double sum = 0;
  for (std::int64_t i = 0; i < entries; ++i) sum += w[i] * std::abs(a[i] - (b == nullptr ? 0 : b[i]));
  return sum / static_cast<double>(entries);
}

template <class T>
void check_dense(context& ctx, std::int64_t batch, std::int64_t rows, std::int64_t columns, bool one_weight) {
  const std::int64_t entries = rows * columns;
  const std::vector<T> a = random_numbers<T>(batch * entries, 1), b = random_numbers<T>(batch * entries, 2);
  std::vector<T> w = random_numbers<T>((one_weight ? 1 : batch) * entries, 3);
  for (T& x : w) x = std::abs(x);
  const tensor<T> left(ctx, {batch, rows, columns}, a), right(ctx, {batch, rows, columns}, b),
      weights(ctx, {one_weight ? 1 : batch, rows, columns}, w);
  tensor<T> out(ctx, {2, batch});
  const view<T, 2> results = out;
  structure_norm(ctx, structure_norm_operands<T>{left, weights}, select(results, 0, 0)).wait_and_throw();
  // the same by columns: all operands transposed
  structure_norm(ctx,
                 structure_norm_operands<T>{transposed(left.template as<3>()), transposed(weights.template as<3>()),
                                            transposed(right.template as<3>())},
                 select(results, 0, 1))
      .wait_and_throw();
  const std::vector<double> a64(a.begin(), a.end()), b64(b.begin(), b.end()), w64(w.begin(), w.end());
  std::vector<double> expected;
  for (const double* other : {static_cast<const double*>(nullptr), b64.data()}) {
    for (std::int64_t i = 0; i < batch; ++i) {
      expected.push_back(reference(a64.data() + i * entries, other == nullptr ? nullptr : other + i * entries,
                                   w64.data() + (one_weight ? 0 : i * entries), entries));
    }
  }
  EXPECT_LT(scaled_residual(out.to_host(), expected, std::sqrt(static_cast<double>(entries))), bound)
      << batch << " x " << rows << " x " << columns;
}

TEST_P(structure_norm_test, agrees_with_a_plain_loop_on_vectors_and_work_items) {
  for (const lane_layout& layout : compiled({ctx_.layout(), lane_layout::work_items(properties(GetParam()), 32)})) {
    SCOPED_TRACE(name_of(layout));
    context ctx(queue_, layout);
    check_dense<float>(ctx, 3, 37, 53, false);
    check_dense<float>(ctx, 1, 1, 1, false);
    check_dense<float>(ctx, 5, 20, 20, true);
  }
  if (has_fp64()) check_dense<double>(ctx_, 2, 19, 70, true);
}

TEST_P(structure_norm_test, is_a_norm) {
  std::vector<float> w = random_numbers<float>(16, 1);
  for (float& x : w) x = std::abs(x) + 0.1f;
  for (std::uint64_t seed = 2; seed < 12; ++seed) {
    const std::vector<float> a = random_numbers<float>(16, seed), b = random_numbers<float>(16, seed + 100);
    std::vector<float> sum(16), scaled(16);
    for (std::size_t i = 0; i < 16; ++i) {
      sum[i] = a[i] + b[i];
      scaled[i] = -4 * a[i];
    }
    EXPECT_GT(norm_of(ctx_, a, w), 0);
    EXPECT_EQ(norm_of(ctx_, scaled, w), 4 * norm_of(ctx_, a, w));
    EXPECT_LE(norm_of(ctx_, sum, w), (norm_of(ctx_, a, w) + norm_of(ctx_, b, w)) * (1 + 1e-6f));
  }
  EXPECT_EQ(norm_of(ctx_, std::vector<float>(16, 0.f), w), 0);
}

TEST_P(structure_norm_test, says_whether_weights_give_a_norm) {
  const auto kind = [&](std::vector<float> w) { return check_structure_weights(tensor<float>(ctx_, {1, 3}, w)); };
  EXPECT_EQ(kind({1, 2, 3}), structure_norm_kind::norm);
  EXPECT_EQ(kind({1, 0, 3}), structure_norm_kind::seminorm);
  EXPECT_NE(message_of<invalid_argument>([&] { kind({1, 2, -3}); }).find("weight 2 of 3 is -3"), std::string::npos);
  EXPECT_THROW(kind({1, NAN, 3}), invalid_argument);
  EXPECT_THROW(kind({1, INFINITY, 3}), invalid_argument);
}

TEST_P(structure_norm_test, marks_the_matrix_with_a_wrong_weight_alone) {
  std::vector<float> w(3 * 6, 1.f);
  w[4] = -1;
  w[17] = NAN;
  const tensor<float> a(ctx_, {3, 2, 3}, std::vector<float>(18, 2.f)), weights(ctx_, {3, 2, 3}, w);
  tensor<float> out(ctx_, {3});
  structure_norm(ctx_, structure_norm_operands<float>{a, weights}, out).wait_and_throw();
  const std::vector<float> host = out.to_host();
  EXPECT_TRUE(std::isnan(host[0]));
  EXPECT_EQ(host[1], 2);
  EXPECT_TRUE(std::isnan(host[2]));
}

TEST_P(structure_norm_test, takes_nothing) {
  tensor<float> out(ctx_, {2}, std::vector<float>{7, 7});
  const view<const float, 3> none{nullptr, {2, 0, 5}, {0, 5, 1}};
  structure_norm(ctx_, structure_norm_operands<float>{none, none}, out).wait_and_throw();
  EXPECT_EQ(out.to_host(), (std::vector<float>{0, 0}));
}

TEST_P(structure_norm_test, streams_attention_without_storing_it) {
  constexpr std::int64_t heads = 3, S = 21, d = 8;
  const auto numbers = [&](std::int64_t count, std::uint64_t seed) {
    std::vector<float> x = random_numbers<float>(count, seed);
    for (float& e : x) e *= 3;
    return x;
  };
  const tensor<float> q(ctx_, {heads, S, d}, numbers(heads * S * d, 1)),
      k(ctx_, {heads, S, d}, numbers(heads * S * d, 2)), v(ctx_, {heads, S, d}, numbers(heads * S * d, 3)),
      q2(ctx_, {heads, S, d}, numbers(heads * S * d, 4));
  std::vector<float> w = random_numbers<float>(S * S, 5);
  for (float& e : w) e = std::abs(e);
  const tensor<float> weights(ctx_, {S, S}, w);
  const auto first = effective_attention(ctx_, q, k, v), second = effective_attention(ctx_, q2, k, v);
  const attention_factors<float> a{q, k, first.log_sum_exp, first.p, first.u},
      b{q2, k, second.log_sum_exp, second.p, second.u};
  for (const attention_matrix matrix :
       {attention_matrix::raw, attention_matrix::effective, attention_matrix::null_part}) {
    tensor<float> dense_a(ctx_, {heads, S, S}), dense_b(ctx_, {heads, S, S}), expected(ctx_, {heads});
    attention_part(ctx_, a, dense_a, {.matrix = matrix}).wait_and_throw();
    attention_part(ctx_, b, dense_b, {.matrix = matrix}).wait_and_throw();
    for (const bool has_other : {false, true}) {
      structure_norm(ctx_,
                     structure_norm_operands<float>{dense_a, weights,
                                                    has_other ? view<const float, 3>(dense_b) : view<const float, 3>()},
                     expected)
          .wait_and_throw();
      const std::vector<float> reference = expected.to_host();
      for (const std::int64_t rows : {0, 1, 4, 21}) {
        tensor<float> out(ctx_, {heads});
        structure_norm(ctx_, streamed_structure_operands<float>{a, weights, has_other ? b : attention_factors<float>{}},
                       out, {.matrix = matrix, .rows = rows})
            .wait_and_throw();
        EXPECT_LT(scaled_residual(out.to_host(), std::vector<double>(reference.begin(), reference.end()), S), 1);
      }
    }
  }
  // The raw attention needs neither p nor u.
  tensor<float> out(ctx_, {heads}), with_factors(ctx_, {heads});
  structure_norm(ctx_, streamed_structure_operands<float>{{q, k, first.log_sum_exp, {}, {}}, weights}, out)
      .wait_and_throw();
  structure_norm(ctx_, streamed_structure_operands<float>{a, weights}, with_factors).wait_and_throw();
  EXPECT_EQ(out.to_host(), with_factors.to_host());
  EXPECT_THROW(structure_norm(ctx_, streamed_structure_operands<float>{a, weights}, out, {.rows = -1}),
               invalid_argument);
}

}  // namespace
}  // namespace nullscope::test

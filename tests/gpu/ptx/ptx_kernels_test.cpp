/// Functions of the library on a GPU that is not there: the PTX of their kernels, executed on the host, gives what
/// double precision gives, within the bounds of the tests on devices.
#include "tests/gpu/ptx/ptx_fixture.hpp"

#include <nullscope/attention/attention.hpp>
#include <nullscope/explain/slalom.hpp>
#include <nullscope/linalg/gemm.hpp>
#include <nullscope/linalg/qr.hpp>
#include <nullscope/linalg/rows.hpp>
#include <nullscope/null_space/null_space.hpp>

#include "lib/src/linalg/joint_matrix_check.hpp"
#include "tests/attention/attention_fixture.hpp"
#include "tests/explain/planted.hpp"
#include "tests/linalg/svd_support.hpp"

namespace nullscope::test {
namespace {

using ptx::kind;

/// x (rows, inner) times y (inner, columns) in double.
template <class X, class Y>
std::vector<double> product(const std::vector<X>& x, const std::vector<Y>& y, std::int64_t rows, std::int64_t columns,
                            std::int64_t inner) {
  std::vector<double> result(static_cast<std::size_t>(rows * columns));
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t l = 0; l < inner; ++l) {
      const double factor = static_cast<double>(x[static_cast<std::size_t>(i * inner + l)]);
      for (std::int64_t j = 0; j < columns; ++j) {
        result[static_cast<std::size_t>(i * columns + j)] +=
            factor * static_cast<double>(y[static_cast<std::size_t>(l * columns + j)]);
      }
    }
  }
  return result;
}
std::vector<double> transposed_matrix(const std::vector<double>& x, std::int64_t rows, std::int64_t columns) {
  std::vector<double> result(x.size());
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j)
      result[static_cast<std::size_t>(j * rows + i)] = x[static_cast<std::size_t>(i * columns + j)];
  }
  return result;
}

/// The gradients of causal attention in double, plainly.
struct attention_gradients_in_double {
  std::vector<double> d_q, d_k, d_v;
};
attention_gradients_in_double gradients_of_attention(const attention_case& c, const std::vector<float>& q,
                                                     const std::vector<float>& k, const std::vector<float>& v,
                                                     const std::vector<float>& d_out) {
  attention_gradients_in_double r{std::vector<double>(q.size()), std::vector<double>(k.size()),
                                  std::vector<double>(v.size())};
  const double scale = 1 / std::sqrt(static_cast<double>(c.dk));
  const auto dot = [](const std::vector<float>& x, std::int64_t i, const std::vector<float>& y, std::int64_t j,
                      std::int64_t d) {
    double sum = 0;
    for (std::int64_t e = 0; e < d; ++e) {
      sum += static_cast<double>(x[static_cast<std::size_t>(i * d + e)]) *
             static_cast<double>(y[static_cast<std::size_t>(j * d + e)]);
    }
    return sum;
  };
  const auto add = [](std::vector<double>& to, std::int64_t i, double factor, const std::vector<float>& x,
                      std::int64_t j, std::int64_t d) {
    for (std::int64_t e = 0; e < d; ++e) {
      to[static_cast<std::size_t>(i * d + e)] += factor * static_cast<double>(x[static_cast<std::size_t>(j * d + e)]);
    }
  };
  for (std::int64_t row = 0; row < c.heads * c.queries; ++row) {
    const std::int64_t first = row / c.queries * c.keys, visible = row % c.queries + c.keys - c.queries + 1;
    std::vector<double> weight, d_weight;
    double sum = 0, mean = 0;
    for (std::int64_t j = 0; j < visible; ++j) {
      weight.push_back(std::exp(scale * dot(q, row, k, first + j, c.dk)));
      d_weight.push_back(dot(d_out, row, v, first + j, c.dv));
      sum += weight.back();
    }
    for (double& w : weight) w /= sum;
    for (std::size_t j = 0; j < weight.size(); ++j) mean += weight[j] * d_weight[j];
    for (std::int64_t j = 0; j < visible; ++j) {
      const double w = weight[static_cast<std::size_t>(j)];
      const double d_score = scale * w * (d_weight[static_cast<std::size_t>(j)] - mean);
      add(r.d_q, row, d_score, k, first + j, c.dk);
      add(r.d_k, first + j, d_score, q, row, c.dk);
      add(r.d_v, first + j, w, d_out, row, c.dv);
    }
  }
  return r;
}

using ptx_kernels = ptx_fixture;

TEST_F(ptx_kernels, gemm_in_float) {
  const std::int64_t m = 130, n = 70, k = 37;
  const auto a = random_numbers<float>(m * k, 1), b = random_numbers<float>(k * n, 2);
  const tensor<float> da(queue_, {1, m, k}, a), db(queue_, {1, k, n}, b);
  tensor<float> c(queue_, {1, m, n});
  execute([&](context& ctx) { return gemm(ctx, {da, db}, c, {.path = gemm_path::own}); });
  EXPECT_LT(scaled_residual(c.to_host(), product(a, b, m, n, k), static_cast<double>(k)), 10);
  EXPECT_GE(32 * sum().of(kind::fma), static_cast<std::uint64_t>(m * n * k)) << "32 lanes make the products";
  EXPECT_GE(sum().bytes_written, static_cast<std::uint64_t>(m * n * 4));
}

TEST_F(ptx_kernels, gemm_of_bfloat16_on_tensor_cores) {
  const std::int64_t m = 75, n = 50, k = 100;
  std::vector<bfloat16> a, b;
  for (const float x : random_numbers<float>(m * k, 1)) a.emplace_back(x);
  for (const float x : random_numbers<float>(k * n, 2)) b.emplace_back(x);
  const tensor<bfloat16> da(queue_, {1, m, k}, a), db(queue_, {1, k, n}, b);
  tensor<float> c(queue_, {1, m, n});
  EXPECT_FALSE(detail::tested_properties(ctx_).bf16_tiles.empty()) << "the test of the engine before its first use";
  execute([&](context& ctx) { return gemm(ctx, {da, db}, c, {.path = gemm_path::own}); });
  EXPECT_LT(scaled_residual(c.to_host(), product(a, b, m, n, k), static_cast<double>(k)), 10);
  EXPECT_GT(sum().of(kind::mma), 0u);
}

TEST_F(ptx_kernels, softmax_of_short_and_long_rows) {
  for (const std::int64_t columns : {37, 3000}) {
    const std::int64_t rows = 5;
    auto x = random_numbers<float>(rows * columns, 7);
    for (float& number : x) number *= 20;
    const tensor<float> dx(queue_, {1, rows, columns}, x);
    tensor<float> y(queue_, {1, rows, columns}), lse(queue_, {1, rows});
    execute([&](context& ctx) { return softmax(ctx, dx, {y, lse}); });
    std::vector<double> expected, expected_lse;
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto row = std::span(x).subspan(static_cast<std::size_t>(r * columns), static_cast<std::size_t>(columns));
      double sum = 0;
      for (const float number : row) sum += std::exp(static_cast<double>(number));
      for (const float number : row) expected.push_back(std::exp(static_cast<double>(number)) / sum);
      expected_lse.push_back(std::log(sum));
    }
    EXPECT_LT(scaled_residual(y.to_host(), expected, 1), 4 + static_cast<double>(columns) / 1000);
    EXPECT_LT(scaled_residual(lse.to_host(), expected_lse, 1), 1);
  }
}

/// Heads of attention with odd sizes.
struct heads_of_attention {
  attention_case shape{1, 2, 37, 45, 24, 20, true};
  std::vector<float> q = random_numbers<float>(2 * 37 * 24, 1), k = random_numbers<float>(2 * 45 * 24, 2),
                     v = random_numbers<float>(2 * 45 * 20, 3), d_out = random_numbers<float>(2 * 37 * 20, 4);
};

TEST_F(ptx_kernels, attention_and_its_gradients) {
  const heads_of_attention x;
  const auto& [batch, heads, queries, keys, dk, dv, causal, lengths, magnitude] = x.shape;
  const tensor<float> q(queue_, {batch, heads, queries, dk}, x.q), k(queue_, {batch, heads, keys, dk}, x.k);
  const tensor<float> v(queue_, {batch, heads, keys, dv}, x.v), d_out(queue_, {batch, heads, queries, dv}, x.d_out);
  tensor<float> out(queue_, {batch, heads, queries, dv}), lse(queue_, {batch, heads, queries});
  execute([&](context& ctx) { return attention(ctx, {q, k, v}, {.out = out, .log_sum_exp = lse}, {.causal = true}); });
  const auto expected = plain_attention<double>(x.shape, x.q, x.k, x.v);
  const auto plain = plain_attention<float>(x.shape, x.q, x.k, x.v);
  constexpr double rounding = 4 * static_cast<double>(std::numeric_limits<float>::epsilon());
  EXPECT_LE(largest_error(out.to_host(), expected.out), 2 * largest_error(plain.out, expected.out) + rounding);
  EXPECT_LE(largest_error(lse.to_host(), expected.log_sum_exp),
            2 * largest_error(plain.log_sum_exp, expected.log_sum_exp) + 16 * rounding);

  tensor<float> d_q(queue_, {batch, heads, queries, dk}), d_k(queue_, {batch, heads, keys, dk}),
      d_v(queue_, {batch, heads, keys, dv});
  execute([&](context& ctx) {
    return attention_backward(ctx, {q, k, v, out, lse, d_out}, {d_q, d_k, d_v}, {.causal = true});
  });
  const auto gradients = gradients_of_attention(x.shape, x.q, x.k, x.v, x.d_out);
  EXPECT_LT(scaled_residual(d_q.to_host(), gradients.d_q, 1), 40);
  EXPECT_LT(scaled_residual(d_k.to_host(), gradients.d_k, 1), 40);
  EXPECT_LT(scaled_residual(d_v.to_host(), gradients.d_v, 1), 40);
}

TEST_F(ptx_kernels, tall_qr) {
  const std::int64_t rows = 300, columns = 20;
  const auto a = random_numbers<float>(rows * columns, 5);
  const tensor<float> da(queue_, {1, rows, columns}, a);
  tensor<float> q(queue_, {1, rows, columns}), r(queue_, {1, columns, columns});
  execute([&](context& ctx) { return qr(ctx, da, {.q = q, .r = r}); });
  const auto got_q = q.to_host(), got_r = r.to_host();
  EXPECT_LT(scaled_residual(std::vector<float>(a), product(got_q, got_r, rows, columns, columns),
                            static_cast<double>(columns)),
            10);
  EXPECT_LT(orthogonality(got_q.data(), rows, columns, columns, 1), 10);
}

TEST_F(ptx_kernels, batched_svd) {
  check_all(ctx_, random_batch<float>(3, 24, 17), {});
  check_all(ctx_, random_batch<double>(2, 9, 21), {});
}

TEST_F(ptx_kernels, range_of_a_head) {
  const std::int64_t tokens = 90, dv = 12, d = 30, rank = 7;
  auto v = random_numbers<float>(tokens * dv, 5);
  const auto h = random_numbers<float>(dv * d, 6);
  for (std::int64_t i = 0; i < tokens * dv; ++i)
    v[static_cast<std::size_t>(i)] = v[static_cast<std::size_t>(i % (rank * dv))];
  const range_tensors<float> found =
      range_basis(ctx_, tensor<float>(ctx_, {1, tokens, dv}, v), tensor<float>(ctx_, {1, dv, d}, h));
  EXPECT_EQ(found.rank[0], rank);
  const std::int64_t columns = dv + 1;  // one more, which is zero
  const std::vector<float> basis = found.basis.to_host();
  EXPECT_LT(orthogonality(basis.data(), tokens, rank, columns, 1), 10);
  const std::vector<double> t = product(v, h, tokens, d, dv), u(basis.begin(), basis.end());
  const auto inside =
      product(u, product(transposed_matrix(u, tokens, columns), t, columns, d, tokens), tokens, d, columns);
  EXPECT_LT(scaled_residual(std::vector<float>(inside.begin(), inside.end()), t, static_cast<double>(tokens)), 10);
}

TEST_F(ptx_kernels, slalom_recovers_a_planted_model) {
  const slalom_model planted = planted_slalom(9, 1, 11);
  const std::vector<slalom_queries> problems{with_targets(random_queries(9, 1, 270, 2, 12), planted)};
  const slalom_model found = fit_slalom(ctx_, problems)[0];
  EXPECT_TRUE(found.converged);
  EXPECT_LE(largest_difference(found.value, planted.value), 1e-11);
  EXPECT_LE(largest_difference(found.importance, planted.importance), 1e-11);
}

/// The tests can fail: with one instruction of a right program changed, results are wrong, or the machine stops.
TEST_F(ptx_kernels, a_changed_instruction_shows) {
  const std::int64_t m = 70, n = 40, k = 30;
  const auto a = random_numbers<float>(m * k, 1), b = random_numbers<float>(k * n, 2);
  const tensor<float> da(queue_, {1, m, k}, a), db(queue_, {1, k, n}, b);
  const auto expected = product(a, b, m, n, k);
  const auto residual = [&](const std::string& from, const std::string& to) {
    ptx::ptx_runner changed(queue_.get_device());
    changed.change_code([&](std::string text) {
      std::size_t count = 0;
      for (std::size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size()), ++count)
        text.replace(at, from.size(), to);
      EXPECT_GT(count, 0u) << from;
      return text;
    });
    context ctx = ptx::executing_context(queue_, changed);
    tensor<float> c(queue_, {1, m, n});
    try {
      gemm(ctx, {da, db}, c, {.path = gemm_path::own}).wait_and_throw();
    } catch (const ptx::failure&) {
      return std::numeric_limits<double>::infinity();
    }
    return scaled_residual(c.to_host(), expected, static_cast<double>(k));
  };
  EXPECT_LT(residual("bar.sync", "bar.sync"), 10);
  EXPECT_GT(residual("bar.sync", "//"), 1e3) << "without barriers";
  EXPECT_GT(residual("fma.rn.f32", "fma.rn.sat.f32"), 1e3) << "with sums between 0 and 1";
}

}  // namespace
}  // namespace nullscope::test

#include <cmath>
#include <nullscope/linalg/gemm.hpp>
#include <nullscope/linalg/random.hpp>
#include <nullscope/linalg/rows.hpp>

#include "bench/check/operations.hpp"

namespace nullscope::check_device {

numbers product(const numbers& a, const numbers& b, std::int64_t m, std::int64_t n, std::int64_t k, bool transposed_b) {
  numbers c(static_cast<std::size_t>(m * n));
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::int64_t p = 0; p < k; ++p) {
        sum +=
            a[static_cast<std::size_t>(i * k + p)] * b[static_cast<std::size_t>(transposed_b ? j * k + p : p * n + j)];
      }
      c[static_cast<std::size_t>(i * n + j)] = sum;
    }
  }
  return c;
}

namespace {

constexpr std::int64_t m = 129, n = 67, k = 203;  // no multiples of anything

template <class T>
outcome check_gemm(context& ctx, gemm_path path) {
  const random_operand<T> a(ctx, {m, k}, 1), b(ctx, {k, n}, 2);
  tensor<product_of<T>> c(ctx, {m, n});
  gemm(ctx, gemm_operands<T>{a.device, b.device}, c, {.path = path}).wait_and_throw();
  return {scaled_residual(c.to_host(), product(a.host, b.host, m, n, k), std::sqrt(k))};
}

outcome check_bf16_gemm(context& ctx) {
  std::vector<bfloat16> a, b;
  for (const float x : random_numbers<float>(m * k, 1)) a.emplace_back(x);
  for (const float x : random_numbers<float>(k * n, 2)) b.emplace_back(x);
  const auto doubles = [](const std::vector<bfloat16>& x) {
    numbers result;
    for (const bfloat16 one : x) result.push_back(static_cast<double>(static_cast<float>(one)));
    return result;
  };
  const tensor<bfloat16> on_device_a(ctx, {m, k}, a), on_device_b(ctx, {k, n}, b);
  tensor<float> c(ctx, {m, n});
  gemm(ctx, gemm_operands<bfloat16>{on_device_a, on_device_b}, c, {.path = gemm_path::own}).wait_and_throw();
  return {scaled_residual(c.to_host(), product(doubles(a), doubles(b), m, n, k), std::sqrt(k))};
}

template <class T>
outcome check_softmax(context& ctx) {
  const random_operand<T> x(ctx, {m, n}, 3);
  tensor<T> y(ctx, {m, n});
  softmax(ctx, x.device, {.y = y}).wait_and_throw();
  numbers expected = x.host;
  for (std::int64_t i = 0; i < m; ++i) {
    double sum = 0;
    for (std::int64_t j = 0; j < n; ++j) sum += std::exp(x.host[static_cast<std::size_t>(i * n + j)]);
    for (std::int64_t j = 0; j < n; ++j) {
      double& e = expected[static_cast<std::size_t>(i * n + j)];
      e = std::exp(e) / sum;
    }
  }
  return {scaled_residual(y.to_host(), expected, 1)};
}

template <class T>
outcome check_layer_norm(context& ctx) {
  const random_operand<T> x(ctx, {m, n}, 4), gamma(ctx, {n}, 5), beta(ctx, {n}, 6);
  tensor<T> y(ctx, {m, n});
  layer_norm(ctx, layer_norm_operands<T>{x.device, gamma.device, beta.device}, layer_norm_results<T>{y})
      .wait_and_throw();
  numbers expected = x.host;
  for (std::int64_t i = 0; i < m; ++i) {
    double* const row = expected.data() + i * n;
    double mean = 0, variance = 0;
    for (std::int64_t j = 0; j < n; ++j) mean += row[j] / n;
    for (std::int64_t j = 0; j < n; ++j) variance += (row[j] - mean) * (row[j] - mean) / n;
    for (std::int64_t j = 0; j < n; ++j) {
      const auto c = static_cast<std::size_t>(j);
      row[j] = (row[j] - mean) / std::sqrt(variance + layer_norm_options{}.epsilon) * gamma.host[c] + beta.host[c];
    }
  }
  return {scaled_residual(y.to_host(), expected, 1)};
}

template <class T>
outcome check_row_reduce(context& ctx) {
  const random_operand<T> x(ctx, {m, n}, 7);
  tensor<T> out(ctx, {m});
  row_reduce(ctx, x.device, out, row_reduction::norm).wait_and_throw();
  numbers expected(m);
  for (std::size_t i = 0; i < x.host.size(); ++i) expected[i / n] += x.host[i] * x.host[i];
  for (double& e : expected) e = std::sqrt(e);
  return {scaled_residual(out.to_host(), expected, 1)};
}

template <class T>
outcome check_elementwise(context& ctx) {
  const random_operand<T> x(ctx, {m, n}, 8), y(ctx, {m, n}, 9);
  tensor<T> sum(ctx, {m, n}), gelu(ctx, {m, n});
  axpby(ctx, two_operands<T>{x.device, y.device}, sum, {.alpha = 2, .beta = -0.5}).wait_and_throw();
  apply(ctx, x.device, gelu, unary_function::gelu).wait_and_throw();
  numbers expected_sum(x.host), expected_gelu(x.host);
  for (std::size_t i = 0; i < x.host.size(); ++i) {
    expected_sum[i] = 2 * x.host[i] - 0.5 * y.host[i];
    expected_gelu[i] = 0.5 * x.host[i] * std::erfc(-x.host[i] / std::sqrt(2.0));
  }
  return {worse(scaled_residual(sum.to_host(), expected_sum, 1), scaled_residual(gelu.to_host(), expected_gelu, 1))};
}

template <class T>
outcome check_transpose(context& ctx) {
  const random_operand<T> x(ctx, {m, n}, 10);
  tensor<T> out(ctx, {n, m});
  transpose(ctx, x.device, out).wait_and_throw();
  numbers expected(x.host.size());
  for (std::size_t i = 0; i < x.host.size(); ++i) expected[i % n * m + i / n] = x.host[i];
  return {scaled_residual(out.to_host(), expected, 1), 0};
}

template <class T>
outcome check_random(context& ctx) {
  const random_stream stream{.seed = 11, .stream = 3};
  tensor<T> out(ctx, {1001});
  fill_uniform(ctx, out, stream).wait_and_throw();
  numbers expected;
  for (std::int64_t i = 0; i < out.size(); ++i) expected.push_back(static_cast<double>(uniform_at<T>(stream, i)));
  return {scaled_residual(out.to_host(), expected, 1), 0};  // the same bits
}

template <class T>
checked_operations of_type() {
  const std::string type = type_name<T>();
  return {{"random numbers", type, check_random<T>},
          {"elementwise", type, check_elementwise<T>},
          {"transpose", type, check_transpose<T>},
          {"softmax", type, check_softmax<T>},
          {"layer norm", type, check_layer_norm<T>},
          {"row norms", type, check_row_reduce<T>},
          {"gemm, own kernels", type, [](context& ctx) { return check_gemm<T>(ctx, gemm_path::own); }},
          {"gemm, as dispatched", type, [](context& ctx) { return check_gemm<T>(ctx, gemm_path::automatic); }}};
}

}  // namespace

checked_operations blas_operations(bool fp64) {
  checked_operations all = of_type<float>();
  all.push_back({"gemm, own kernels", "bf16", check_bf16_gemm});
  if (fp64) {
    for (checked_operation& one : of_type<double>()) all.push_back(std::move(one));
  }
  return all;
}

}  // namespace nullscope::check_device

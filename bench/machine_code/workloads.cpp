#include "bench/machine_code/workloads.hpp"

#include <nullscope/attention/attention.hpp>
#include <nullscope/core/tensor.hpp>
#include <nullscope/explain/slalom.hpp>
#include <nullscope/linalg/gemm.hpp>
#include <nullscope/linalg/qr.hpp>
#include <nullscope/linalg/random.hpp>
#include <nullscope/linalg/rows.hpp>
#include <nullscope/linalg/svd.hpp>
#include <nullscope/null_space/null_space.hpp>

namespace nullscope::bench {
namespace {

/// Numbers between -1 and 1.
template <class T>
tensor<T> numbers(context& ctx, std::vector<std::int64_t> shape) {
  tensor<T> result(ctx, std::move(shape));
  std::vector<T> host;
  for (std::int64_t i = 0; i < result.size(); ++i)
    host.push_back(T(static_cast<float>(2 * uniform_at<double>({1, 2}, i) - 1)));
  result.copy_from(host);
  return result;
}

template <class In, class T>
void run_gemm(context& ctx) {
  const auto a = numbers<In>(ctx, {1, 256, 256}), b = numbers<In>(ctx, {1, 256, 128});
  tensor<T> c(ctx, {1, 256, 128});
  gemm(ctx, {a, b}, c, {.path = gemm_path::own}).wait_and_throw();
}

template <class T>
struct heads {
  static constexpr std::int64_t count = 2, queries = 128, keys = 256, d = 64;
  tensor<T> q, k, v;
  explicit heads(context& ctx)
      : q(numbers<T>(ctx, {1, count, queries, d})),
        k(numbers<T>(ctx, {1, count, keys, d})),
        v(numbers<T>(ctx, {1, count, keys, d})) {}
};
constexpr double head_products = 2.0 * 2 * 128 * 256 * 64;  // flops of scores, or of weights times values

template <class T>
void run_attention(context& ctx) {
  const heads<T> x(ctx);
  tensor<attention_number<T>> out(ctx, x.q.shape()), lse(ctx, {1, x.count, x.queries});
  attention(ctx, {x.q, x.k, x.v}, {.out = out, .log_sum_exp = lse}).wait_and_throw();
}
void run_attention_backward(context& ctx) {
  const heads<float> x(ctx);
  const auto out = numbers<float>(ctx, x.q.shape()), d_out = numbers<float>(ctx, x.q.shape());
  const auto lse = numbers<float>(ctx, {1, x.count, x.queries});
  tensor<float> d_q(ctx, x.q.shape()), d_k(ctx, x.k.shape()), d_v(ctx, x.v.shape());
  attention_backward(ctx, {x.q, x.k, x.v, out, lse, d_out}, {d_q, d_k, d_v}).wait_and_throw();
}

void run_qr(context& ctx) {
  const auto a = numbers<float>(ctx, {1, 1024, 64});
  tensor<float> q(ctx, {1, 1024, 64}), r(ctx, {1, 64, 64});
  qr(ctx, a, {.q = q, .r = r}).wait_and_throw();
}
template <class T>
void run_svd(context& ctx) {
  svd(ctx, numbers<T>(ctx, {4, 32, 32}));
}
void run_softmax(context& ctx, std::int64_t rows, std::int64_t columns) {
  const auto x = numbers<float>(ctx, {1, rows, columns});
  tensor<float> y(ctx, {1, rows, columns});
  softmax(ctx, x, {y}).wait_and_throw();
}
void run_layer_norm(context& ctx) {
  const auto x = numbers<float>(ctx, {1, 64, 768});
  tensor<float> y(ctx, {1, 64, 768});
  layer_norm(ctx, layer_norm_operands<float>{x}, layer_norm_results<float>{y}).wait_and_throw();
}
void run_range_basis(context& ctx) {
  range_basis(ctx, numbers<float>(ctx, {2, 256, 32}), numbers<float>(ctx, {2, 32, 128}));
}

void run_slalom(context& ctx) {
  constexpr std::int32_t tokens = 32;
  slalom_queries queries(tokens);
  for (std::int32_t i = 0; i < 10 * tokens; ++i) {
    queries.add(std::vector<std::int32_t>{i % tokens, i * 7 % tokens, i * i % tokens});
    queries.targets.push_back(uniform_at<double>({3, 4}, i));
  }
  fit_slalom(ctx, {&queries, 1});
}

}  // namespace

std::vector<workload> workloads() {
  constexpr double product = 2.0 * 256 * 128 * 256;
  return {
      {"gemm, float", "256 x 128 x 256", product, run_gemm<float, float>},
      {"gemm, double", "256 x 128 x 256", product, run_gemm<double, double>},
      {"gemm, bfloat16", "256 x 128 x 256", product, run_gemm<bfloat16, float>},
      {"attention, float", "2 heads, 128 queries, 256 keys, 64", 2 * head_products, run_attention<float>},
      {"attention, bfloat16", "2 heads, 128 queries, 256 keys, 64", 2 * head_products, run_attention<bfloat16>},
      {"attention_backward, float", "2 heads, 128 queries, 256 keys, 64", 5 * head_products, run_attention_backward},
      {"qr, float", "1024 x 64", 4.0 * 1024 * 64 * 64, run_qr},
      {"svd, float", "4 of 32 x 32", 0, run_svd<float>},
      {"svd, double", "4 of 32 x 32", 0, run_svd<double>},
      {"softmax, float, short rows", "64 x 512", 0, [](context& ctx) { run_softmax(ctx, 64, 512); }},
      {"softmax, float, long rows", "8 x 8192", 0, [](context& ctx) { run_softmax(ctx, 8, 8192); }},
      {"layer_norm, float", "64 x 768", 0, run_layer_norm},
      {"range_basis, float", "2 heads, 256 tokens, 32, 128", 0, run_range_basis},
      {"fit_slalom, double", "32 tokens, 320 queries", 0, run_slalom},
  };
}

}  // namespace nullscope::bench

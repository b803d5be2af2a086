/// The weights of attention: all of A, and the attention that each key receives, streamed or from a stored A.
#include <nullscope/attention/attention.hpp>
#include <nullscope/linalg/gemm.hpp>
#include <nullscope/linalg/rows.hpp>

#include "bench/attention/attention_data.hpp"

namespace nullscope::bench {
namespace {

struct weights_data : attention_data<float> {
  weights_data(context& context, std::int64_t length)
      : attention_data(context, length),
        weights(ctx, {attention_heads, length, length}),
        received(ctx, {attention_heads, length}) {
    forward().wait();
  }

  tensor<float> weights, received;
};

sycl::event run_weights(weights_data& d) { return attention_weights(d.ctx, {d.q, d.k, d.log_sum_exp}, d.weights); }

void run_received(weights_data& d) { attention_received(d.ctx, {d.q, d.k, d.log_sum_exp}, d.received).wait(); }

/// Without log_sum_exp: a product and a softmax.
sycl::event run_softmax(weights_data& d) {
  const sycl::event scores =
      gemm(d.ctx, {d.q, transposed(d.k.as<3>())}, d.weights, {.alpha = attention_scale, .path = gemm_path::vendor});
  return softmax(d.ctx, d.weights, {.y = d.weights}, {scores});
}

void run_column_sums(weights_data& d) {
  const sycl::event ready = run_weights(d);
  row_reduce(d.ctx, transposed(d.weights.as<3>()), d.received, row_reduction::sum, {ready}).wait();
}

void verify_weights(weights_data& d, report& report) {
  const std::vector<float> got = d.weights.to_host();
  std::vector<float> found;
  std::vector<double> expected;
  for_some_tokens(d.tokens, [&](std::int64_t head, std::int64_t i) {
    const float* row = got.data() + (head * d.tokens + i) * d.tokens;
    found.insert(found.end(), row, row + d.tokens);
    const std::vector<double> exact = exact_weights(d, head, i);
    expected.insert(expected.end(), exact.begin(), exact.end());
  });
  report.residual("residual", scaled_residual<float>(found, expected, std::sqrt(attention_width)), 10);
}

/// The sum over all keys is the number of queries; some keys against the sum of their column.
void verify_received(weights_data& d, report& report) {
  const std::vector<float> got = d.received.to_host(), sums = d.log_sum_exp.to_host();
  std::vector<float> found;
  std::vector<double> expected;
  for_some_tokens(d.tokens, [&](std::int64_t head, std::int64_t j) {
    found.push_back(got[static_cast<std::size_t>(head * d.tokens + j)]);
    const std::vector<double> key = d.row(d.host_k, head, j);
    double total = 0;
    for (std::int64_t i = 0; i < d.tokens; ++i) {
      total += std::exp(attention_scale * dot(d.row(d.host_q, head, i), key) -
                        static_cast<double>(sums[static_cast<std::size_t>(head * d.tokens + i)]));
    }
    expected.push_back(total);
  });
  report.residual("residual", scaled_residual<float>(found, expected, 1), 10);
}

}  // namespace

void add_attention_weights(suite& suite, std::int64_t tokens) {
  const auto s = static_cast<double>(tokens);
  constexpr double heads = attention_heads, width = attention_width;
  const auto make = [tokens](context& ctx) { return weights_data(ctx, tokens); };
  const auto work = [&](const std::string& operation, double numbers) {
    return workload{.operation = operation,
                    .type = "f32",
                    .sizes = {{"heads", attention_heads}, {"d", attention_width}, {"s", tokens}},
                    .flops = 2 * heads * s * s * width,
                    .bytes = numbers * sizeof(float)};
  };
  auto& weights = suite.add(work("attention_weights", heads * s * (s + 2 * width)), make);
  weights.path("sycl", [](weights_data& d) { run_weights(d).wait(); });
  auto& received = suite.add(work("attention_received", heads * s * (2 * width + 2)), make);
  received.path("sycl", run_received);
#ifdef NULLSCOPE_HAS_ONEMKL
  weights.path("onemkl", [](weights_data& d) { run_softmax(d).wait(); });
  received.path("onemkl", run_column_sums);
#endif
  const auto clear = [](weights_data& d) { fill_with_nan(d.ctx, {&d.weights, &d.received}); };
  weights.clear(clear).verify(verify_weights);
  received.clear(clear).verify(verify_received);
}

}  // namespace nullscope::bench

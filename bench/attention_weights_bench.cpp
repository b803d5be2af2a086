/// The weights of attention: all of A, and the attention that each key receives, streamed beside a stored A.
#include <nullscope/attention_weights.hpp>
#include <nullscope/gemm.hpp>
#include <nullscope/rows.hpp>

#include "attention_data.hpp"

namespace nullscope::bench {
namespace {

struct weights_data : attention_data<float> {
  weights_data(sycl::queue& q, std::int64_t length)
      : attention_data(q, length),
        weights(q, {attention_heads, length, length}),
        received(q, {attention_heads, length}),
        received_scratchpad(q, {attention_received_scratchpad_size<float>(q, heads(this->q), heads(k))}) {
    forward().wait();
  }

  view<float, 4> all() { return contiguous(weights.data(), std::int64_t{1}, attention_heads, tokens, tokens); }

  tensor<float> weights, received;
  tensor<std::byte> received_scratchpad;
};

sycl::event run_weights(weights_data& d) {
  return attention_weights<float>(d.queue, d.heads(d.q), d.heads(d.k), d.sums(), d.all());
}

void run_received(weights_data& d) {
  attention_received<float, float>(d.queue, d.heads(d.q), d.heads(d.k), d.sums(),
                                   contiguous(d.received.data(), std::int64_t{1}, attention_heads, d.tokens),
                                   d.received_scratchpad.span())
      .wait();
}

/// Without log_sum_exp: a product and a softmax.
sycl::event run_softmax(weights_data& d) {
  const tensor<float>&q = d.q, &k = d.k, &weights = d.weights;
  const sycl::event scores = gemm(d.queue, static_cast<float>(attention_scale), q.as<3>(), transposed(k.as<3>()), 0.f,
                                  d.weights.as<3>(), {gemm_path::onemkl});
  return softmax<float, 3>(d.queue, weights.as<3>(), d.weights.as<3>(), {}, {scores});
}

void run_column_sums(weights_data& d) {
  const sycl::event ready = run_weights(d);
  const tensor<float>& weights = d.weights;
  row_reduce<float, 2>(d.queue, row_reduction::sum, transposed(weights.as<3>()), d.received.as<2>(), {ready}).wait();
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
  const auto make = [tokens](sycl::queue& queue) { return weights_data(queue, tokens); };
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
  const auto clear = [](weights_data& d) {
    d.queue.fill(d.weights.data(), NAN, static_cast<std::size_t>(d.weights.size())).wait();
    d.queue.fill(d.received.data(), NAN, static_cast<std::size_t>(d.received.size())).wait();
  };
  weights.clear(clear).verify(verify_weights);
  received.clear(clear).verify(verify_received);
}

}  // namespace nullscope::bench

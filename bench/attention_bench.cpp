/// Attention forward: the streaming kernel beside two products by oneMKL with a softmax between them, which store the
/// S x S weights of every head.
#include <nullscope/attention.hpp>
#include <nullscope/gemm.hpp>
#include <nullscope/rows.hpp>
#include <nullscope/tensor.hpp>

#include "harness.hpp"

namespace nullscope::bench {
namespace {

constexpr std::int64_t heads = 12, width = 64;

struct attention_data {
  attention_data(sycl::queue& q, std::int64_t length)
      : queue(q),
        tokens(length),
        host_q(random_numbers<float>(heads * length * width, 1)),
        host_k(random_numbers<float>(heads * length * width, 2)),
        host_v(random_numbers<float>(heads * length * width, 3)),
        host_out(host_q.size()),
        q(queue, {heads, length, width}, host_q),
        k(queue, {heads, length, width}, host_k),
        v(queue, {heads, length, width}, host_v),
        out(queue, {heads, length, width}),
        weights(queue, {heads, length, length}),
        scratchpad(queue, {attention_scratchpad_size<float>(queue, as_four(k), as_four(v))}) {}

  view<const float, 4> as_four(const tensor<float>& x) const {
    return contiguous(x.data(), std::int64_t{1}, heads, tokens, width);
  }

  sycl::queue& queue;
  std::int64_t tokens;
  std::vector<float> host_q, host_k, host_v, host_out;
  tensor<float> q, k, v, out, weights;
  tensor<std::byte> scratchpad;
};

void run_streaming(attention_data& d) {
  attention<float, float>(d.queue, d.as_four(d.q), d.as_four(d.k), d.as_four(d.v),
                          contiguous(d.out.data(), std::int64_t{1}, heads, d.tokens, width), {},
                          {d.scratchpad.data(), static_cast<std::size_t>(d.scratchpad.size())})
      .wait();
}

void run_products(attention_data& d) {
  const gemm_options onemkl{gemm_path::onemkl};
  const tensor<float>&q = d.q, &k = d.k, &v = d.v, &weights = d.weights;
  const sycl::event scores =
      gemm(d.queue, 0.125f, q.as<3>(), transposed(k.as<3>()), 0.f, d.weights.as<3>(), {}, onemkl);
  const sycl::event normalised = softmax<float, 3>(d.queue, weights.as<3>(), d.weights.as<3>(), {}, {scores});
  gemm(d.queue, 1.f, weights.as<3>(), v.as<3>(), 0.f, d.out.as<3>(), {normalised}, onemkl).wait();
}

/// One row of the output in double, for the verification.
std::vector<double> exact_row(const attention_data& d, std::int64_t head, std::int64_t i) {
  const auto row = [&](const std::vector<float>& x, std::int64_t r) {
    return x.data() + (head * d.tokens + r) * width;
  };
  std::vector<double> weight, out(width, 0.0);
  double total = 0;
  for (std::int64_t j = 0; j < d.tokens; ++j) {
    double score = 0;
    for (std::int64_t c = 0; c < width; ++c)
      score += 0.125 * row(d.host_q, i)[c] * static_cast<double>(row(d.host_k, j)[c]);
    total += std::exp(score);
    weight.push_back(std::exp(score));
  }
  for (std::int64_t j = 0; j < d.tokens; ++j) {
    for (std::int64_t c = 0; c < width; ++c) {
      out[static_cast<std::size_t>(c)] += weight[static_cast<std::size_t>(j)] / total * row(d.host_v, j)[c];
    }
  }
  return out;
}

/// Some rows of every head: the first, the last, and others between.
void verify(attention_data& d, report& report) {
  const std::vector<float> out = d.out.to_host();
  std::vector<float> got;
  std::vector<double> expected;
  for (std::int64_t head = 0; head < heads; ++head) {
    for (std::int64_t i = 0; i < d.tokens; i += std::max<std::int64_t>(1, (d.tokens - 1) / 5)) {
      const float* row = out.data() + (head * d.tokens + i) * width;
      got.insert(got.end(), row, row + width);
      const std::vector<double> exact = exact_row(d, head, i);
      expected.insert(expected.end(), exact.begin(), exact.end());
    }
  }
  report.residual("residual", scaled_residual<float>(got, expected, std::sqrt(static_cast<double>(d.tokens))), 10);
}

void add_attention(suite& suite, std::int64_t tokens) {
  const auto s = static_cast<double>(tokens);
  auto& added = suite.add({.operation = "attention",
                           .type = "f32",
                           .sizes = {{"heads", heads}, {"d", width}, {"s", tokens}},
                           .flops = 4 * heads * s * s * width,
                           .bytes = 4 * heads * s * width * sizeof(float)},
                          [tokens](sycl::queue& queue) { return attention_data(queue, tokens); });
  added.path("sycl", run_streaming);
#ifdef NULLSCOPE_HAS_ONEMKL
  added.path("onemkl", run_products);
#endif
  added.clear([](attention_data& d) { d.queue.fill(d.out.data(), NAN, static_cast<std::size_t>(d.out.size())).wait(); })
      .verify(verify);
}

}  // namespace
}  // namespace nullscope::bench

int main(int argc, char** argv) {
  using namespace nullscope::bench;
  return run(argc, argv, "attention forward", [](suite& suite) {
    for (const std::int64_t tokens : {512, 1024, 2048, 4096}) add_attention(suite, tokens);
  });
}

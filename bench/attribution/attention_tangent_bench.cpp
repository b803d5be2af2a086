/// Tangents of attention: one streaming pass, and plain products of oneMKL with the matrices of weights in memory.
#include <nullscope/attribution/jacobian.hpp>
#include <nullscope/linalg/gemm.hpp>
#include <nullscope/linalg/rows.hpp>

#include "bench/attention/attention_data.hpp"

namespace nullscope::bench {
namespace {

constexpr std::int64_t tangents = 16;

struct tangent_data : attention_data<float> {
  tangent_data(context& context, std::int64_t length)
      : attention_data(context, length),
        host_dq(random_numbers<float>(size(), 5)),
        host_dk(random_numbers<float>(size(), 6)),
        host_dv(random_numbers<float>(size(), 7)),
        dq(ctx, {tangents, 1, attention_heads, length, attention_width}, host_dq),
        dk(ctx, {tangents, 1, attention_heads, length, attention_width}, host_dk),
        dv(ctx, {tangents, 1, attention_heads, length, attention_width}, host_dv),
        tangent_out(ctx, {tangents, 1, attention_heads, length, attention_width}) {
    forward().wait();
  }

  std::int64_t size() const { return tangents * attention_heads * tokens * attention_width; }

  std::vector<float> host_dq, host_dk, host_dv;
  tensor<float> dq, dk, dv, tangent_out;
  tensor<float> weights, products, sums;  // (heads, tokens, tokens), (heads, tokens); only for plain products
};

void run_streaming(tangent_data& d) {
  attention_tangent(d.ctx, {d.q, d.k, d.v, d.out, d.log_sum_exp, d.dq, d.dk, d.dv}, d.tangent_out).wait();
}

[[maybe_unused]] void run_products(tangent_data& d) {
  const std::int64_t s = d.tokens;
  if (d.weights.size() == 0) {
    d.weights = tensor<float>(d.ctx, {attention_heads, s, s});
    d.products = tensor<float>(d.ctx, {attention_heads, s, s});
    d.sums = tensor<float>(d.ctx, {attention_heads, s});
  }
  const auto multiply_by = [&](const view<const float, 3>& a, const view<const float, 3>& b, const view<float, 3>& c,
                               double alpha, double beta) {
    gemm(d.ctx, {a, b}, c, {.alpha = alpha, .beta = beta, .path = gemm_path::vendor});
  };
  const view<float, 3> weights = d.weights, products = d.products;
  const view<const float, 3> q = d.q, k = d.k, v = d.v, out = d.out;
  operation op(d.ctx, "plain_tangent");
  multiply_by(q, transposed(k), weights, attention_scale, 0);
  softmax(d.ctx, weights, {.y = weights});
  for (std::int64_t t = 0; t < tangents; ++t) {
    const auto of_tangent = [&](tensor<float>& x) { return select(select(x.as<5>(), 0, t), 0, 0); };
    const view<float, 3> result = of_tangent(d.tangent_out);
    multiply_by(of_tangent(d.dq), transposed(k), products, attention_scale, 0);
    multiply_by(q, transposed(of_tangent(d.dk)), products, attention_scale, 1);
    multiply(d.ctx, {products, weights}, products);
    row_reduce(d.ctx, products, d.sums, row_reduction::sum);
    const view<const float, 3> sums{d.sums.data(), {attention_heads, s, attention_width}, {s, 1, 0}};
    multiply(d.ctx, {out, sums}, result);
    multiply_by(products, v, result, 1, -1);
    multiply_by(weights, of_tangent(d.dv), result, 1, 1);
  }
  op.submit_and_wait();
}

/// Row i of tangent t, from the formulas.
std::vector<double> exact_tangent(const tangent_data& d, std::int64_t t, std::int64_t head, std::int64_t i) {
  const std::int64_t first = t * attention_heads;  // tangents are further heads
  const std::vector<double> weight = exact_weights(d, head, i), out = exact_out(d, head, i);
  const std::vector<double> query = d.row(d.host_q, head, i), d_query = d.row(d.host_dq, first + head, i);
  std::vector<double> result(attention_width, 0.0);
  double sum = 0;
  for (std::int64_t j = 0; j < d.tokens; ++j) {
    const double w = weight[static_cast<std::size_t>(j)];
    const double product =
        w * attention_scale * (dot(d_query, d.row(d.host_k, head, j)) + dot(query, d.row(d.host_dk, first + head, j)));
    sum += product;
    add_scaled(product, d.row(d.host_v, head, j), result);
    add_scaled(w, d.row(d.host_dv, first + head, j), result);
  }
  add_scaled(-sum, out, result);
  return result;
}

void verify(tangent_data& d, report& report) {
  const std::vector<float> all = d.tangent_out.to_host();
  const auto size = static_cast<std::ptrdiff_t>(attention_heads * d.tokens * attention_width);
  for (const std::int64_t t : {std::int64_t{0}, tangents - 1}) {
    const std::vector<float> got(all.begin() + t * size, all.begin() + (t + 1) * size);
    verify_rows(d, got, fmt::format("tangent_{}", t), report, 10,
                [&](std::int64_t head, std::int64_t i) { return exact_tangent(d, t, head, i); });
  }
}

void add_attention_tangent(suite& suite, std::int64_t tokens) {
  const auto s = static_cast<double>(tokens);
  constexpr double heads = attention_heads, width = attention_width, count = tangents;
  [[maybe_unused]] auto& added =
      suite
          .add({.operation = "attention_tangent",
                .type = "f32",
                .sizes = {{"heads", attention_heads}, {"d", attention_width}, {"s", tokens}, {"tangents", tangents}},
                .flops = 8 * count * heads * s * s * width,
                .bytes = (4 * count + 4) * heads * s * width * sizeof(float)},
               [tokens](context& ctx) { return tangent_data(ctx, tokens); })
          .path("sycl", run_streaming)
          .clear([](tangent_data& d) { fill_with_nan(d.ctx, {&d.tangent_out}); })
          .verify(verify);
#ifdef NULLSCOPE_HAS_ONEMKL
  added.path("onemkl", run_products);
#endif
  // The forward kernel, to compare flops per second with.
  suite
      .add({.operation = "attention",
            .type = "f32",
            .sizes = {{"heads", attention_heads}, {"d", attention_width}, {"s", tokens}},
            .flops = 4 * heads * s * s * width,
            .bytes = 4 * heads * s * width * sizeof(float)},
           [tokens](context& ctx) { return attention_data<float>(ctx, tokens); })
      .path("sycl", [](attention_data<float>& d) { d.forward().wait(); })
      .clear([](attention_data<float>& d) { fill_with_nan(d.ctx, {&d.out}); })
      .verify([](attention_data<float>& d, report& report) {
        verify_rows(d, d.out.to_host(), "residual", report, 10,
                    [&](std::int64_t head, std::int64_t i) { return exact_out(d, head, i); });
      });
}

}  // namespace
}  // namespace nullscope::bench

int main(int argc, char** argv) {
  using namespace nullscope::bench;
  return run(argc, argv, "attention: tangents of many directions at once", [](suite& suite) {
    for (const std::int64_t tokens : {512, 1024, 2048, 4096}) add_attention_tangent(suite, tokens);
  });
}

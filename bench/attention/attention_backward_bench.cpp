/// Attention forward and backward, as in training.
#include <nullscope/attention/attention.hpp>

#include "bench/attention/attention_data.hpp"

namespace nullscope::bench {
namespace {

struct gradient_data : attention_data<float> {
  gradient_data(context& context, std::int64_t length)
      : attention_data(context, length),
        d_q(ctx, {attention_heads, length, attention_width}),
        d_k(ctx, {attention_heads, length, attention_width}),
        d_v(ctx, {attention_heads, length, attention_width}) {}

  tensor<float> d_q, d_k, d_v;
};

void run_streaming(gradient_data& d) {
  const sycl::event forward = d.forward();
  attention_backward(d.ctx, {d.q, d.k, d.v, d.out, d.log_sum_exp, d.d_out}, {.d_q = d.d_q, .d_k = d.d_k, .d_v = d.d_v},
                     {}, {forward})
      .wait();
}

/// One key's gradients need every query; those of the forward pass (log_sum_exp, out) are verified on their own.
struct exact_key_gradients {
  std::vector<double> d_k = std::vector<double>(attention_width), d_v = std::vector<double>(attention_width);
};

exact_key_gradients exact_of_key(const gradient_data& d, const std::vector<float>& out, const std::vector<float>& sums,
                                 std::int64_t head, std::int64_t j) {
  exact_key_gradients result;
  const std::vector<double> key = d.row(d.host_k, head, j), value = d.row(d.host_v, head, j);
  for (std::int64_t i = 0; i < d.tokens; ++i) {
    const std::vector<double> query = d.row(d.host_q, head, i), d_out = d.row(d.host_d_out, head, i);
    const double weight = std::exp(attention_scale * dot(query, key) -
                                   static_cast<double>(sums[static_cast<std::size_t>(head * d.tokens + i)]));
    add_scaled(weight, d_out, result.d_v);
    const double d_score = weight * (dot(d_out, value) - dot(d_out, d.row(out, head, i)));
    add_scaled(attention_scale * d_score, query, result.d_k);
  }
  return result;
}

std::vector<double> exact_d_q(const gradient_data& d, std::int64_t head, std::int64_t i) {
  const std::vector<double> weight = exact_weights(d, head, i), d_out = d.row(d.host_d_out, head, i);
  const double product = dot(d_out, exact_out(d, head, i));
  std::vector<double> d_q(attention_width, 0.0);
  for (std::int64_t j = 0; j < d.tokens; ++j) {
    const double d_weight = dot(d_out, d.row(d.host_v, head, j));
    add_scaled(attention_scale * weight[static_cast<std::size_t>(j)] * (d_weight - product), d.row(d.host_k, head, j),
               d_q);
  }
  return d_q;
}

void verify(gradient_data& d, report& report) {
  const std::vector<float> out = d.out.to_host(), sums = d.log_sum_exp.to_host();
  verify_rows(d, d.d_q.to_host(), "d_q", report, 10,
              [&](std::int64_t head, std::int64_t i) { return exact_d_q(d, head, i); });
  verify_rows(d, d.d_k.to_host(), "d_k", report, 10,
              [&](std::int64_t head, std::int64_t j) { return exact_of_key(d, out, sums, head, j).d_k; });
  verify_rows(d, d.d_v.to_host(), "d_v", report, 10,
              [&](std::int64_t head, std::int64_t j) { return exact_of_key(d, out, sums, head, j).d_v; });
}

}  // namespace

void add_attention_backward(suite& suite, std::int64_t tokens) {
  const auto s = static_cast<double>(tokens);
  constexpr double heads = attention_heads, width = attention_width;
  suite
      .add({.operation = "attention_training",
            .type = "f32",
            .sizes = {{"heads", attention_heads}, {"d", attention_width}, {"s", tokens}},
            .flops = 14 * heads * s * s * width,
            .bytes = 8 * heads * s * width * sizeof(float)},
           [tokens](context& ctx) { return gradient_data(ctx, tokens); })
      .path("sycl", run_streaming)
      .clear([](gradient_data& d) {
        fill_with_nan(d.ctx, {&d.out, &d.d_q, &d.d_k, &d.d_v});
      })
      .verify(verify);
}

}  // namespace nullscope::bench

/// Attention forward: the streaming kernel compared with two products by oneMKL and a softmax between them, which store
/// the weights of every head.
#include <nullscope/core/device.hpp>
#include <nullscope/linalg/gemm.hpp>
#include <nullscope/linalg/rows.hpp>

#include "bench/attention/attention_data.hpp"

namespace nullscope::bench {
namespace {

constexpr double f32_bound = 10;

template <class In>
struct forward_data : attention_data<In> {
  forward_data(context& ctx, std::int64_t length)
      : attention_data<In>(ctx, length),
        weights(ctx, {std::is_same_v<In, float> ? attention_heads : 0, length, length}) {}

  tensor<float> weights;
};

void run_products(forward_data<float>& d) {
  const sycl::event scores =
      gemm(d.ctx, {d.q, transposed(d.k.as<3>())}, d.weights, {.alpha = attention_scale, .path = gemm_path::vendor});
  const sycl::event normalised = softmax(d.ctx, d.weights, {.y = d.weights}, {scores});
  gemm(d.ctx, {d.weights, d.v}, d.out, {.path = gemm_path::vendor}, {normalised}).wait();
}

/// A CPU's matrix engine takes weights that are rounded to 8 bits: each is off by at most 2^-8 of itself. These errors
/// have nothing to do with the values, and so |out - exact|_F is about as much of |exact|_F as a weight's error is of
/// the weight, less than 2^-8. Twice that is allowed, in the units of the residual. Elsewhere bf16 is exact in float.
double bf16_bound(const context& ctx, std::int64_t tokens) {
  if (ctx.device().kind != device_kind::cpu || ctx.device().bf16_tiles.empty()) return f32_bound;
  return 0x1p-7 / (std::sqrt(static_cast<double>(tokens)) * 0x1p-23);
}

template <class In>
auto& add_type(suite& suite, const std::string& type, std::int64_t tokens, double bound) {
  const auto s = static_cast<double>(tokens);
  constexpr double heads = attention_heads, width = attention_width;
  using data = forward_data<In>;
  return suite
      .add({.operation = "attention",
            .type = type,
            .sizes = {{"heads", attention_heads}, {"d", attention_width}, {"s", tokens}},
            .flops = 4 * heads * s * s * width,
            .bytes = heads * s * width * (3 * sizeof(In) + sizeof(float))},
           [tokens](context& ctx) { return data(ctx, tokens); })
      .path("sycl", [](data& d) { d.forward().wait(); })
      .clear([](data& d) { fill_with_nan(d.ctx, {&d.out}); })
      .verify([bound](data& d, report& report) {
        verify_rows(d, d.out.to_host(), "residual", report, bound,
                    [&](std::int64_t head, std::int64_t i) { return exact_out(d, head, i); });
      });
}

}  // namespace

void add_attention_forward(suite& suite, std::int64_t tokens) {
  [[maybe_unused]] auto& f32 = add_type<float>(suite, "f32", tokens, f32_bound);
#ifdef NULLSCOPE_HAS_ONEMKL
  f32.path("onemkl", run_products);
#endif
  add_type<bfloat16>(suite, "bf16", tokens, bf16_bound(suite.ctx(), tokens));
}

}  // namespace nullscope::bench

int main(int argc, char** argv) {
  using namespace nullscope::bench;
  return run(argc, argv, "attention: forward, gradients, weights", [](suite& suite) {
    for (const std::int64_t tokens : {512, 1024, 2048, 4096}) add_attention_forward(suite, tokens);
    for (const std::int64_t tokens : {512, 1024, 2048, 4096}) add_attention_backward(suite, tokens);
    for (const std::int64_t tokens : {512, 2048}) add_attention_weights(suite, tokens);
  });
}

/// Attention forward: the streaming kernel beside two products by oneMKL with a softmax between them, which store the
/// S x S weights of every head.
#include <nullscope/device.hpp>
#include <nullscope/gemm.hpp>
#include <nullscope/rows.hpp>

#include "attention_data.hpp"

namespace nullscope::bench {
namespace {

constexpr double f32_bound = 10;

template <class In>
struct forward_data : attention_data<In> {
  forward_data(sycl::queue& q, std::int64_t length)
      : attention_data<In>(q, length), weights(q, {std::is_same_v<In, float> ? attention_heads : 0, length, length}) {}

  tensor<float> weights;
};

void run_products(forward_data<float>& d) {
  const gemm_options onemkl{gemm_path::onemkl};
  const tensor<float>&q = d.q, &k = d.k, &v = d.v, &weights = d.weights;
  const sycl::event scores = gemm(d.queue, static_cast<float>(attention_scale), q.as<3>(), transposed(k.as<3>()), 0.f,
                                  d.weights.as<3>(), onemkl);
  const sycl::event normalised = softmax<float, 3>(d.queue, weights.as<3>(), d.weights.as<3>(), {}, {scores});
  gemm(d.queue, 1.f, weights.as<3>(), v.as<3>(), 0.f, d.out.as<3>(), onemkl, {normalised}).wait();
}

/// A CPU's matrix engine takes weights that are rounded to 8 bits: each is off by at most 2^-8 of itself. These errors
/// have nothing to do with the values, and so |out - exact|_F is about as much of |exact|_F as a weight's error is of
/// the weight, less than 2^-8. Twice that is allowed, in the units of the residual. Elsewhere bf16 is exact in float.
double bf16_bound(const sycl::device& device, std::int64_t tokens) {
  const device_properties& found = properties(device);
  if (found.kind != device_kind::cpu || found.bf16_tiles.empty()) return f32_bound;
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
           [tokens](sycl::queue& queue) { return data(queue, tokens); })
      .path("sycl", [](data& d) { d.forward().wait(); })
      .clear([](data& d) { d.queue.fill(d.out.data(), NAN, static_cast<std::size_t>(d.out.size())).wait(); })
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
  add_type<bfloat16>(suite, "bf16", tokens, bf16_bound(suite.queue().get_device(), tokens));
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

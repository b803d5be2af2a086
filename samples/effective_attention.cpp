/// On how much of a head's attention can its output depend? Random heads with few and with many tokens, without ever
/// forming a tokens x tokens matrix.
#include <cstdio>
#include <nullscope/attention/effective_attention.hpp>
#include <nullscope/core/device.hpp>
#include <nullscope/linalg/random.hpp>

namespace {

using namespace nullscope;

/// Normally distributed numbers.
tensor<float> normal(context& ctx, tensor<float>::shape_type shape, std::uint64_t stream) {
  tensor<float> x(ctx, std::move(shape));
  fill_normal(ctx, contiguous(x.data(), x.size()), {.seed = 1, .stream = stream}).wait();
  return x;
}

}  // namespace

int main() {
  constexpr std::int64_t heads = 1, width = 64, model_width = 512;
  context ctx(select_device());
  const tensor<float> h = normal(ctx, {heads, width, model_width}, 0);
  std::printf("tokens  dim LN(T)  correlation of A and A_perp  |A_par| / |A|\n");
  for (const std::int64_t tokens : {32, 128, 512, 2048, 8192}) {
    const tensor<float> q = normal(ctx, {heads, tokens, width}, 1), k = normal(ctx, {heads, tokens, width}, 2),
                        v = normal(ctx, {heads, tokens, width}, 3);
    const auto result = effective_attention(ctx, q, k, v, h);
    const effective_attention_summary<float>& head = result.summary[0];
    std::printf("%6ld %10ld %28.3f %14.3f\n", static_cast<long>(tokens), static_cast<long>(result.null_dimension[0]),
                head.pearson, head.null_norm / head.raw_norm);
  }
}

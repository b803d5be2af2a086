/// How much of a head's attention can its output depend on? The answer for random heads, from a few tokens to many,
/// without a matrix of tokens by tokens.
#include <cstdio>
#include <nullscope/device.hpp>
#include <nullscope/effective_attention.hpp>
#include <nullscope/random.hpp>

namespace {

using namespace nullscope;

/// (heads, rows, columns) of normal numbers.
tensor<float> normal(sycl::queue& queue, std::int64_t heads, std::int64_t rows, std::int64_t columns,
                     std::uint64_t stream) {
  tensor<float> x(queue, {heads, rows, columns});
  fill_normal<float>(queue, contiguous(x.data(), x.size()), {.seed = 1, .stream = stream}, 0, 1).wait();
  return x;
}

}  // namespace

int main() {
  constexpr std::int64_t heads = 1, width = 64, model_width = 512;
  sycl::queue queue(select_device());
  const tensor<float> h = normal(queue, heads, width, model_width, 0);
  std::printf("tokens  dim LN(T)  correlation of A and A_perp  |A_par| / |A|\n");
  for (const std::int64_t tokens : {32, 128, 512, 2048, 8192}) {
    const tensor<float> q = normal(queue, heads, tokens, width, 1), k = normal(queue, heads, tokens, width, 2),
                        v = normal(queue, heads, tokens, width, 3);
    const auto result = effective_attention(queue, q, k, v, h);
    const effective_attention_summary<float>& head = result.summary[0];
    std::printf("%6ld %10ld %28.3f %14.3f\n", static_cast<long>(tokens), static_cast<long>(result.null_dimension[0]),
                head.pearson, head.null_norm / head.raw_norm);
  }
}

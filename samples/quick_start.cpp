/// Quick start: how much of a head's attention is invisible in the head's output?
///
/// A head with values V (tokens x 64) and output matrix H (64 x 512) maps attention A to A V H. The part of A in the
/// left null space of T = V H is lost. This program prints the dimension of that space. The README shows it.
#include <cstdio>
#include <nullscope/nullscope.hpp>

int main() {
  using namespace nullscope;
  context ctx(select_device());  // a GPU if there is one; select_device("cpu") for the CPU

  tensor<float> v(ctx, {1000, 64}), h(ctx, {64, 512});
  fill_normal(ctx, contiguous(v.data(), v.size()), {.seed = 1, .stream = 0});
  fill_normal(ctx, contiguous(h.data(), h.size()), {.seed = 1, .stream = 1});

  const range_tensors<float> range = range_basis(ctx, v, h, {.with_ones = true});
  std::printf("rank(T) = %ld\n", static_cast<long>(range.rank[0]));
  std::printf("dim LN(T) = %ld\n", static_cast<long>(range.null_dimension[0]));
  std::printf("dim LN([T, 1]) = %ld\n", static_cast<long>(range.null_dimension_with_ones[0]));
}

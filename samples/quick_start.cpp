/// Quick start: how much of a head's attention cannot be seen in what the head puts out?
///
/// A head with values V (tokens x 64) and output matrix H (64 x 512) maps attention A to A V H. All that A has in the
/// left null space of T = V H is lost; here is how large that space is.
#include <cstdio>
#include <nullscope/device.hpp>
#include <nullscope/null_space.hpp>
#include <nullscope/random.hpp>

int main() {
  using namespace nullscope;
  sycl::queue queue(select_device());  // a GPU if there is one; select_device("cpu") insists

  tensor<float> v(queue, {1000, 64}), h(queue, {64, 512});
  fill_normal<float>(queue, contiguous(v.data(), v.size()), {.seed = 1, .stream = 0}, 0, 1).wait();
  fill_normal<float>(queue, contiguous(h.data(), h.size()), {.seed = 1, .stream = 1}, 0, 1).wait();

  const range_result<float> range = range_basis(queue, v, h, {.with_ones = true});
  std::printf("rank(T) = %ld\n", static_cast<long>(range.rank[0]));
  std::printf("dim LN(T) = %ld\n", static_cast<long>(range.null_dimension[0]));
  std::printf("dim LN([T, 1]) = %ld\n", static_cast<long>(range.null_dimension_with_ones[0]));
}

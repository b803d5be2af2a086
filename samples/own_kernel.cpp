/// How to launch a kernel of your own. CMake embeds its header into the program (see CMakeLists.txt):
///   nullscope_embed_headers(own_kernel own_kernel_headers "own_kernel.hpp=<path of the header>")
#include "own_kernel.hpp"

#include <cstdio>
#include <nullscope/core/device.hpp>
#include <nullscope/core/operation.hpp>
#include <nullscope/core/tensor.hpp>

#ifndef NULLSCOPE_SINGLE_SOURCE
namespace nullscope {
std::vector<kernel_header> own_kernel_headers();  // written by nullscope_embed_headers
}
#endif

int main() {
  using namespace nullscope;
#ifndef NULLSCOPE_SINGLE_SOURCE
  add_kernel_headers(own_kernel_headers());
#endif
  context ctx(select_device());
  tensor<float> x(ctx, {5}, std::vector<float>{-2, -1, 0, 1, 2});
  const sycl::nd_range<1> one_group_of_64{64, 64};
  launch(ctx, one_group_of_64, 0, leaky_relu<float>{x.data(), x.size(), 0.25f}).wait();
  for (const float y : x.to_host()) std::printf("%g ", y);
  std::printf("\n");
}

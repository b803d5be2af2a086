/// Quick start: random matrices on a device, the same on every device.
#include <cstdio>
#include <nullscope/device.hpp>
#include <nullscope/random.hpp>
#include <nullscope/tensor.hpp>

int main() {
  sycl::queue queue(nullscope::select_device());  // a GPU if there is one; select_device("cpu") insists
  nullscope::tensor<float> x(queue, {1000});
  nullscope::fill_normal<float>(queue, x.as<1>(), {.seed = 1}, 0, 1).wait();
  std::printf("%.6f\n", static_cast<double>(x.to_host()[0]));
}

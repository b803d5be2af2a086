/// Tests on a GPU of NVIDIA that is executed on the host; the host's CPU lends memory and compiler.
#pragma once

#include <nullscope/core/tensor.hpp>

#include "tests/core/support.hpp"
#include "tests/gpu/ptx/ptx_runner.hpp"

namespace nullscope::test {

class ptx_fixture : public testing::Test {
 protected:
  sycl::queue queue_{select_device("cpu"), sycl::property::queue::in_order{}};
  ptx::ptx_runner runner_{queue_.get_device()};
  context ctx_{ptx::executing_context(queue_, runner_)};

  template <class Pipeline>
  void execute(Pipeline pipeline) {
    ptx::execute(ctx_, runner_, pipeline);
  }

  /// Of all kernels that ran.
  ptx::counts sum() const {
    ptx::counts result;
    for (const auto& [name, found] : runner_.counted()) result += found.counted;
    return result;
  }
};

}  // namespace nullscope::test

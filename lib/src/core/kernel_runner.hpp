/// Runs kernels in the place of a device. The tests have one that runs the kernels of GPUs on the host, and checks
/// every access to memory.
#pragma once

#include <cstddef>
#include <nullscope/core/kernel.hpp>
#include <span>
#include <sycl/sycl.hpp>

namespace nullscope::detail {

class kernel_runner {
 public:
  virtual ~kernel_runner() = default;

  /// Whether it runs this kernel. The device runs the others.
  virtual bool runs(const kernel_description& kernel) const = 0;

  /// Returns when the launch is complete. `functor` holds the bytes of the kernel.
  virtual void run(const kernel_description& kernel, const sycl::nd_range<1>& range, std::size_t local_bytes,
                   std::span<const std::byte> functor) = 0;
};

}  // namespace nullscope::detail

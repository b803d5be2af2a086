/// Runs kernels in the place of a device. The tests have two, which run kernels of GPUs on the host: one checks every
/// access to memory, one executes the machine's own code.
#pragma once

#include <cstddef>
#include <nullscope/core/context.hpp>
#include <nullscope/core/kernel.hpp>
#include <span>
#include <sycl/sycl.hpp>

namespace nullscope::detail {

class kernel_runner {
 public:
  virtual ~kernel_runner() = default;

  /// What the functions of the library shall take the device for; lives as long as the runner.
  virtual const device_properties& device() const = 0;

  /// Returns when the launch is complete. `functor` holds the bytes of the kernel.
  virtual void run(const kernel_description& kernel, const sycl::nd_range<1>& range, std::size_t local_bytes,
                   std::span<const std::byte> functor) = 0;
};

/// From now on the kernels of this context are run by `runner`, which must outlive it. The device of the context's
/// queue lends its memory, and runs the other steps of an operation, such as copies.
void run_kernels_by(context& ctx, kernel_runner& runner);

/// Another context for the same device, in its own layout, whose kernels are run by the same runner if there is one.
context sibling_of(const context& ctx);

}  // namespace nullscope::detail

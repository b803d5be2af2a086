/// Runs the kernels of a context by executing their PTX on the host: a GPU of NVIDIA that need not be there.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/src/core/kernel_runner.hpp"
#include "tests/gpu/ptx/machine.hpp"

namespace nullscope::ptx {

/// Of all launches of a kernel.
struct kernel_counts {
  counts counted;
  std::uint64_t launches = 0;
};

class ptx_runner : public detail::kernel_runner {
 public:
  /// `host` lends its memory and its compiler; the kernels are compiled for `processor`.
  explicit ptx_runner(const sycl::device& host, std::string processor = "sm_80");
  ~ptx_runner() override;

  /// An A100, as NVIDIA describes it.
  const device_properties& device() const override { return device_; }

  /// Compiles kernels together, which takes less time than one by one when they first run.
  void prepare(const std::vector<const detail::kernel_description*>& kernels);

  void run(const detail::kernel_description& kernel, const sycl::nd_range<1>& range, std::size_t local_bytes,
           std::span<const std::byte> functor) override;

  /// By the names of kernels.
  const std::map<std::string_view, kernel_counts>& counted() const { return counted_; }
  void forget_counts() { counted_.clear(); }

  /// Changes the PTX of kernels that are compiled from now on: tests of the tests.
  void change_code(std::function<std::string(std::string)> change) { change_ = std::move(change); }

 private:
  struct compiled_module;
  struct compiled_kernel;

  sycl::device host_;
  std::string processor_;
  device_properties device_;
  std::vector<std::unique_ptr<compiled_module>> modules_;
  std::map<const detail::kernel_description*, compiled_kernel> kernels_;
  std::map<std::string_view, kernel_counts> counted_;
  std::function<std::string(std::string)> change_;
};

/// A context whose kernels the runner runs, in the layout of its device.
context executing_context(const sycl::queue& queue, ptx_runner& runner);

/// Runs `pipeline(ctx)`, with its kernels compiled together, and waits.
template <class Pipeline>
void execute(context& ctx, ptx_runner& runner, Pipeline pipeline) {
  runner.prepare(dry_run(ctx, pipeline).kernels);
  pipeline(ctx).wait_and_throw();
}

}  // namespace nullscope::ptx

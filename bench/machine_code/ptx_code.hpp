/// PTX of kernels, by the run-time compiler of oneAPI: what a GPU of NVIDIA would get. No GPU is needed.
#pragma once

#include <nullscope/core/kernel.hpp>
#include <span>
#include <string>
#include <sycl/sycl.hpp>
#include <vector>

namespace nullscope::bench {

inline constexpr const char* ptx_prefix = "__sycl_kernel_";

struct ptx_code {
  std::string text;
  std::vector<std::string> entries;  ///< of each kernel; its entry point is called `ptx_prefix` + this
};

/// Compiles the kernels together, for a processor such as "sm_80"; functors are passed by address. `device` lends its
/// compiler. Throws compilation_error.
ptx_code compile_ptx(const sycl::device& device, std::span<const detail::kernel_description* const> kernels,
                     const std::string& processor);

}  // namespace nullscope::bench

/// SPIR-V of kernels, as the library's run-time compilation makes it for a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nullscope/core/kernel.hpp>
#include <span>
#include <string>
#include <sycl/sycl.hpp>
#include <vector>

namespace nullscope::bench {

/// A module with some of the kernels: those that need the same of a device, such as fp64.
struct kernel_module {
  std::vector<std::byte> code;       ///< SPIR-V or PTX
  std::vector<std::size_t> kernels;  ///< their numbers among those that were compiled
  std::vector<std::string> entries;  ///< the names of their entry points
};

/// Compiles the kernels together. `device` lends its compiler; what is special about it (instructions of a CPU) is left
/// out. Kernels of one work-item ask for sub-groups of `least_sub_group`, 0: for none. Throws compilation_error.
std::vector<kernel_module> compile_modules(const sycl::device& device,
                                           std::span<const detail::kernel_description* const> kernels,
                                           std::int64_t least_sub_group);

}  // namespace nullscope::bench

/// Which kernels the library launches on a GPU, found by dry runs of every public function in the layouts of GPUs. No
/// GPU is needed, and nothing runs.
#pragma once

#include <nullscope/core/kernel.hpp>
#include <set>
#include <string>
#include <sycl/sycl.hpp>
#include <vector>

namespace nullscope::bench {

struct listed_kernel {
  const detail::kernel_description* kernel;
  std::set<std::string> operations;  ///< the public functions that launch it
};

/// Each kernel once, with the public functions that launch it. `device` lends its queue to the dry runs; what it is
/// does not matter, as long as it has fp64. Left out are products on matrix engines: the compiler of a device that has
/// no such engine crashes on them.
std::vector<listed_kernel> gpu_kernels(const sycl::device& device);

}  // namespace nullscope::bench

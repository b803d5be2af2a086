/// Which kernels the library launches on a GPU, found by dry runs of every public function in the layouts of GPUs. No
/// GPU is needed, and nothing runs.
#pragma once

#include <nullscope/kernel.hpp>
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
/// does not matter, as long as it has fp64.
std::vector<listed_kernel> gpu_kernels(const sycl::device& device);

/// Kernel files that only layouts of CPUs use, and why.
struct cpu_only_file {
  std::string path, reason;
};
std::vector<cpu_only_file> cpu_only_files();

}  // namespace nullscope::bench

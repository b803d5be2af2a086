/// Which kernels the library launches on a GPU, found by dry runs of every public function in the layouts of GPUs. No
/// GPU is needed, and nothing runs.
#pragma once

#include <nullscope/core/context.hpp>
#include <nullscope/core/kernel.hpp>
#include <optional>
#include <set>
#include <string>
#include <sycl/sycl.hpp>
#include <vector>

#include "lib/src/linalg/gemm_joint_matrix_plan.hpp"

namespace nullscope::bench {

struct listed_kernel {
  const detail::kernel_description* kernel;
  std::set<std::string> operations;  ///< the public functions that launch it
};

/// The groups that the library chooses on GPUs: small ones for short rows, large ones for long rows, and the shapes of
/// kernels whose blocks do not fit a small local memory.
std::vector<lane_layout> gpu_layouts(const device_properties& device);

/// Each kernel once, with the public functions that launch it. `device` lends its queue to the dry runs; what it is
/// does not matter, as long as it has fp64. `engine` is the tile of the GPU's matrix engine, if it has one.
std::vector<listed_kernel> gpu_kernels(const sycl::device& device, std::optional<detail::joint_matrix_tile> engine);

}  // namespace nullscope::bench

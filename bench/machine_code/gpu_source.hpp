/// The source of kernels as a GPU's compiler gets it, without a GPU: what the library's own run-time compilation would
/// hand over there.
#pragma once

#include "lib/src/jit/kernel_source.hpp"

namespace nullscope::bench {

/// The library's own headers.
const detail::known_headers& library_headers();

/// A GPU with sub-groups of `least_sub_group` to 32 work-items (0: kernels ask for none), by the compiler of `device`;
/// what is special about that device, instructions of a CPU, is left out.
detail::kernel_target gpu_target(const sycl::device& device, std::int64_t least_sub_group);

}  // namespace nullscope::bench

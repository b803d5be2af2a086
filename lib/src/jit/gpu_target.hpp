/// The processor for which the run-time compiler makes machine code of NVIDIA's and AMD's GPUs. It takes an old one
/// unless SYCL_JIT_AMDGCN_PTX_TARGET_CPU and SYCL_JIT_AMDGCN_PTX_TARGET_FEATURES name another.
#pragma once

#ifndef NULLSCOPE_SINGLE_SOURCE

#include <string>
#include <string_view>
#include <sycl/sycl.hpp>

namespace nullscope::detail {

struct gpu_target {
  std::string processor, features;  ///< as LLVM names them; empty: the compiler's own choice

  bool operator==(const gpu_target&) const = default;
};

/// The target for a device by what SYCL calls its version: NVIDIA's compute capability ("8.0"), or AMD's processor with
/// its modes ("gfx90a:sramecc+:xnack-").
gpu_target gpu_target_of_version(std::string_view version);

/// Tells the run-time compiler for which processor it works, unless the user has, and returns what holds. The compiler
/// reads this once in a process: throws unsupported_device if it has been told another one. Empty for devices whose
/// drivers compile.
gpu_target tell_compiler_the_target(const sycl::device& device);

}  // namespace nullscope::detail

#endif

#include "lib/src/jit/gpu_target.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <nullscope/core/device.hpp>

#ifndef NULLSCOPE_SINGLE_SOURCE

namespace nullscope::test {
namespace {

using detail::gpu_target;
using detail::gpu_target_of_version;

TEST(gpu_target, of_nvidia_follows_the_compute_capability) {
  EXPECT_EQ(gpu_target_of_version("7.0"), (gpu_target{"sm_70", "+ptx80"}));
  EXPECT_EQ(gpu_target_of_version("8.0"), (gpu_target{"sm_80", "+ptx80"}));
  EXPECT_EQ(gpu_target_of_version("9.0"), (gpu_target{"sm_90", "+ptx80"}));
  EXPECT_EQ(gpu_target_of_version("10.0"), (gpu_target{"sm_100", "+ptx88"}));
  EXPECT_EQ(gpu_target_of_version("12.0"), (gpu_target{"sm_120", "+ptx88"}));
}

TEST(gpu_target, of_amd_is_the_processor_without_its_modes) {
  EXPECT_EQ(gpu_target_of_version("gfx90a:sramecc+:xnack-"), (gpu_target{"gfx90a", ""}));
  EXPECT_EQ(gpu_target_of_version("gfx1100"), (gpu_target{"gfx1100", ""}));
}

TEST(gpu_target, is_the_compilers_own_choice_where_the_version_says_something_else) {
  for (const char* version : {"", "OpenCL 3.0 (Build 0)", "PI 0.0", ".", "8", "1.6.33578"}) {
    EXPECT_EQ(gpu_target_of_version(version), gpu_target{}) << version;
  }
}

TEST(gpu_target, is_not_asked_for_where_the_driver_compiles) {
  for (const sycl::device& device : devices()) {
    if (device.get_backend() != sycl::backend::opencl) continue;
    EXPECT_EQ(detail::tell_compiler_the_target(device), gpu_target{});
    EXPECT_EQ(std::getenv("SYCL_JIT_AMDGCN_PTX_TARGET_CPU"), nullptr);
  }
}

}  // namespace
}  // namespace nullscope::test

#endif

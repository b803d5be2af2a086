#include "lib/src/jit/gpu_target.hpp"

#ifndef NULLSCOPE_SINGLE_SOURCE

#include <fmt/format.h>

#include <cstdlib>
#include <mutex>
#include <nullscope/core/errors.hpp>
#include <optional>

namespace nullscope::detail {
namespace {

constexpr const char* processor_variable = "SYCL_JIT_AMDGCN_PTX_TARGET_CPU";
constexpr const char* features_variable = "SYCL_JIT_AMDGCN_PTX_TARGET_FEATURES";

std::string value_of(const char* variable) {
  const char* const value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

}  // namespace

gpu_target gpu_target_of_version(std::string_view version) {
  if (version.starts_with("gfx")) return {std::string(version.substr(0, version.find(':'))), ""};
  const std::size_t point = version.find('.');
  if (point == std::string_view::npos || point == 0) return {};
  const std::string capability = fmt::format("{}{}", version.substr(0, point), version.substr(point + 1));
  if (capability.find_first_not_of("0123456789") != std::string::npos) return {};
  // The version of PTX that knows the processor; drivers of CUDA 12.0 read 8.0, those of CUDA 12.9 read 8.8.
  const bool is_before_blackwell = point == 1;
  return {fmt::format("sm_{}", capability), is_before_blackwell ? "+ptx80" : "+ptx88"};
}

gpu_target tell_compiler_the_target(const sycl::device& device) {
  const sycl::backend backend = device.get_backend();
  if (backend != sycl::backend::ext_oneapi_cuda && backend != sycl::backend::ext_oneapi_hip) return {};
  static std::mutex mutex;
  static std::optional<gpu_target> told;  // by this process, not by the user
  const std::lock_guard lock(mutex);
  const gpu_target own = gpu_target_of_version(device.get_info<sycl::info::device::version>());
  if (!told && !own.processor.empty() && std::getenv(processor_variable) == nullptr) {
    constexpr int keep = 0;  // features may be set alone
    setenv(processor_variable, own.processor.c_str(), keep);
    setenv(features_variable, own.features.c_str(), keep);
    told = own;
  }
  if (told && !own.processor.empty() && told->processor != own.processor) {
    throw unsupported_device(fmt::format(
        "{} is {}, and this process compiles for {} already; let ONEAPI_DEVICE_SELECTOR leave one kind of GPU",
        device.get_info<sycl::info::device::name>(), own.processor, told->processor));
  }
  return {value_of(processor_variable), value_of(features_variable)};
}

}  // namespace nullscope::detail

#endif

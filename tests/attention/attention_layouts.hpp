/// The tests of attention run on every device, in the layouts of CPUs and in that of GPUs.
#pragma once

#include <nullscope/core/context.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "lib/src/core/dispatch.hpp"
#include "tests/core/support.hpp"

namespace nullscope::test {

/// The kernels that a layout leads to.
enum class attention_kernels {
  vectors_64,
  vectors_32,
  work_items,
  one_worker,     ///< work-items whose local memory does not hold the heads of a case for several workers
  matrix_engine,  ///< bfloat16 on the matrix engine, if there is one; otherwise what the device prefers
};

using attention_layout = std::tuple<sycl::device, attention_kernels>;

inline lane_layout layout_of(const attention_layout& parameters) {
  const device_properties& device = properties(std::get<0>(parameters));
  const attention_kernels kernels = std::get<1>(parameters);
  if (kernels == attention_kernels::matrix_engine) return lane_layout::of(device);
  lane_layout layout = kernels == attention_kernels::vectors_64   ? lane_layout::vectors(device, 64)
                       : kernels == attention_kernels::vectors_32 ? lane_layout::vectors(device, 32)
                                                                  : lane_layout::work_items(device);
  layout.matrix_engine = false;
  return layout;
}

inline bool is_compiled(attention_kernels kernels) {
  if (kernels == attention_kernels::matrix_engine) return true;
  const bool has_vectors = kernels == attention_kernels::vectors_64 || kernels == attention_kernels::vectors_32;
  return has_vectors ? detail::has_cpu_layouts : detail::has_gpu_layouts;
}

/// Those of the kernels that this build has, on every device:
///   INSTANTIATE_TEST_SUITE_P(devices, my_test, attention_layouts(), attention_layout_name);
inline auto attention_layouts(std::vector<attention_kernels> kernels = {attention_kernels::vectors_64,
                                                                        attention_kernels::vectors_32,
                                                                        attention_kernels::work_items}) {
  std::erase_if(kernels, [](attention_kernels one) { return !is_compiled(one); });
  return testing::Combine(testing::ValuesIn(devices()), testing::ValuesIn(kernels));
}

inline std::string attention_layout_name(const testing::TestParamInfo<attention_layout>& info) {
  constexpr const char* names[] = {"vectors_64_", "vectors_32_", "work_items_", "one_worker_", "matrix_engine_"};
  return names[static_cast<int>(std::get<1>(info.param))] + std::to_string(info.index);
}

}  // namespace nullscope::test

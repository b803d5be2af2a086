/// The tests of attention run on every device, in the layout of CPUs and in that of GPUs.
#pragma once

#include "attention_shapes.hpp"
#include "support.hpp"

namespace nullscope::test {

using attention_layout = std::tuple<sycl::device, detail::attention_lanes>;

/// INSTANTIATE_TEST_SUITE_P(devices, my_test, attention_layouts(), attention_layout_name);
inline auto attention_layouts() {
  return testing::Combine(testing::ValuesIn(devices()),
                          testing::Values(detail::attention_lanes::vectors, detail::attention_lanes::work_items));
}

inline std::string attention_layout_name(const testing::TestParamInfo<attention_layout>& info) {
  const bool vectors = std::get<1>(info.param) == detail::attention_lanes::vectors;
  return std::string(vectors ? "vectors" : "work_items") + std::to_string(info.index);
}

/// A large head that fits the device: one of 512 takes 75 KB of local memory on a GPU.
inline std::int64_t large_head(const sycl::queue& queue) {
  return properties(queue.get_device()).local_memory_bytes < std::int64_t{96} << 10 ? 256 : 512;
}

}  // namespace nullscope::test

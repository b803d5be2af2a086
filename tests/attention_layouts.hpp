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

}  // namespace nullscope::test

/// The tests of attention run on every device, in the layouts of CPUs and in that of GPUs.
#pragma once

#include "attention_shapes.hpp"
#include "support.hpp"

namespace nullscope::test {

using attention_layout = std::tuple<sycl::device, detail::attention_lanes>;

/// INSTANTIATE_TEST_SUITE_P(devices, my_test, attention_layouts(), attention_layout_name);
inline auto attention_layouts() {
  return testing::Combine(testing::ValuesIn(devices()),
                          testing::Values(detail::attention_lanes::vectors_512, detail::attention_lanes::vectors_256,
                                          detail::attention_lanes::work_items));
}

inline std::string attention_layout_name(const testing::TestParamInfo<attention_layout>& info) {
  const detail::attention_lanes lanes = std::get<1>(info.param);
  const char* name = lanes == detail::attention_lanes::vectors_512   ? "vectors_512_"
                     : lanes == detail::attention_lanes::vectors_256 ? "vectors_256_"
                                                                     : "work_items_";
  return name + std::to_string(info.index);
}

}  // namespace nullscope::test

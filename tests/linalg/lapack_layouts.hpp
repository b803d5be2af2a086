/// The layouts in which QR and SVD are tested: long vectors of both widths, and groups of work-items as on GPUs.
#pragma once

#include <vector>

#include "tests/core/layouts.hpp"
#include "tests/core/support.hpp"

namespace nullscope::test {

inline std::vector<lane_layout> lapack_layouts(const sycl::device& device) {
  const device_properties& properties = nullscope::properties(device);
  std::vector<lane_layout> layouts;
  for (const std::int64_t bytes : {64, 32}) {
    layouts.push_back(lane_layout::vectors(properties, bytes));
    layouts.back().long_vector_bytes = bytes;
  }
  for (const std::int64_t items : {1, 48, 256}) layouts.push_back(lane_layout::work_items(properties, items));
  layouts[3].local_bytes = 4096;  // most matrices do not fit
  return compiled(layouts);
}

}  // namespace nullscope::test

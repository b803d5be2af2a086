/// The layouts that every kernel is tested in, whatever the device's own: those of CPUs and of GPUs.
#pragma once

#include <nullscope/core/context.hpp>
#include <string>
#include <vector>

#include "lib/src/core/dispatch.hpp"

namespace nullscope::test {

/// Of these layouts, those that this build has kernels for.
inline std::vector<lane_layout> compiled(std::vector<lane_layout> layouts) {
  std::erase_if(layouts, [](const lane_layout& layout) { return !detail::is_compiled(layout); });
  return layouts;
}

/// Vectors of both widths, with results that stay in the caches and that are written past them; groups of 1, 32 and 256
/// work-items, the largest for short rows too.
inline std::vector<lane_layout> row_layouts(const sycl::device& device) {
  const device_properties& properties = nullscope::properties(device);
  std::vector<lane_layout> layouts;
  for (const std::int64_t bytes : {64, 32}) {
    layouts.push_back(lane_layout::vectors(properties, bytes));
    layouts.push_back(layouts.back());
    layouts.back().streams_from = 0;
  }
  for (const std::int64_t items : {1, 32, 256}) layouts.push_back(lane_layout::work_items(properties, items));
  layouts.back().short_row = 0;
  return compiled(layouts);
}

/// For traces: "vectors of 64 bytes, streaming"
inline std::string name_of(const lane_layout& layout) {
  std::string name = to_string(layout);
  if (layout.has_vectors() && layout.long_vector_bytes != layout.vector_bytes) {
    name += ", long vectors of " + std::to_string(layout.long_vector_bytes);
  }
  if (layout.has_vectors() && layout.streams_from == 0) name += ", streaming";
  if (!layout.has_vectors() && layout.short_row == 0) name += ", also for short rows";
  return name + ", local memory of " + std::to_string(layout.local_bytes) + (layout.matrix_engine ? "" : ", no tiles");
}

}  // namespace nullscope::test

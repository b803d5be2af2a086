/// How many lanes a work-item has in the kernels of this folder, whose steps wait for one another: those of a long
/// vector, or one.
#pragma once

#include <cstdint>
#include <nullscope/core/context.hpp>

namespace nullscope::detail {

template <class T>
std::int64_t lanes_in(const lane_layout& layout) {
  return layout.has_vectors() ? layout.long_vector_bytes / static_cast<std::int64_t>(sizeof(T)) : 1;
}

/// Calls call.operator()<W>() with that number of lanes.
template <class T, class Call>
auto with_lanes(const lane_layout& layout, Call call) {
  if (!layout.has_vectors()) return call.template operator()<1>();
  if (layout.long_vector_bytes == 64) return call.template operator()<64 / sizeof(T)>();
  return call.template operator()<32 / sizeof(T)>();
}

}  // namespace nullscope::detail

/// What runs the work-groups of a device.
#pragma once

#include <algorithm>
#include <cstdint>

namespace nullscope::detail {

/// The cores of a GPU that reports its vector engines; `engines_per_core` may be unknown, 0.
constexpr std::int64_t cores_of(std::int64_t engines, std::int64_t engines_per_core) {
  return engines_per_core > 0 ? std::max<std::int64_t>(1, engines / engines_per_core) : engines;
}

}  // namespace nullscope::detail

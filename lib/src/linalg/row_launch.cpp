#include "lib/src/linalg/row_launch.hpp"

#include <algorithm>

namespace nullscope::detail {

row_shape choose_row_shape(const lane_layout& layout, std::int64_t columns, bool neighbours,
                           std::int64_t streamable_bytes, std::int64_t eagerness) {
  if (layout.has_vectors()) {
    if (!neighbours) return {0, 1, false};
    const bool streams = streamable_bytes > 0 && streamable_bytes >= layout.streams_from / eagerness;
    return {static_cast<int>(layout.vector_bytes), 1, streams};
  }
  if (layout.group_items < 32) return {0, 1, false};
  return {0, columns <= layout.short_row || layout.group_items < 256 ? 32 : 256, false};
}

std::int64_t rows_per_group(const context& ctx, const row_shape& shape, std::int64_t rows, std::int64_t row_bytes) {
  if (shape.group_items > 1) return 1;
  constexpr std::int64_t group_bytes = 256 * 1024, at_once = 4;  // at_once: rows that kernels take together, at most
  const std::int64_t by_bytes = group_bytes / std::max<std::int64_t>(row_bytes, 1);
  const std::int64_t by_cores = rows / (4 * ctx.device().compute_units);
  const std::int64_t count = std::max<std::int64_t>(1, std::min(by_bytes, by_cores));
  return count < at_once ? count : count / at_once * at_once;
}

}  // namespace nullscope::detail

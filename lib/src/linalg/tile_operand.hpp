/// How a factor of a product on a matrix engine is copied into tiles, see kernels/linalg/to_tiles.hpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <nullscope/core/bfloat16.hpp>
#include <nullscope/core/view.hpp>

#include "kernels/linalg/to_tiles.hpp"
#include "lib/src/core/ranges.hpp"

namespace nullscope::detail {

/// Elements of the tiles of one matrix (outer, k).
inline std::int64_t packed_elements(std::int64_t outer, std::int64_t k, std::int64_t tile_outer, std::int64_t tile_k) {
  return ceil_div(outer, 2 * tile_outer) * 2 * tile_outer * ceil_div(k, tile_k) * tile_k;
}

/// A factor (matrices, outer, k), without a place for its tiles.
inline kernels::tile_operand tile_operand_of(const view<const bfloat16, 3>& x, std::int64_t tile_outer,
                                             std::int64_t tile_k) {
  kernels::tile_operand result{};
  result.from = x;
  result.panels = ceil_div(x.extent[1], 2 * tile_outer);
  result.steps = ceil_div(x.extent[2], tile_k);
  // A unit writes about 32 KB and reads whole cache lines: along k, or 512 bytes of each row of a tile.
  constexpr std::int64_t unit = 16, most_panels = 8;
  if (x.stride[2] == 1) {
    result.unit_steps = std::clamp<std::int64_t>(result.steps, 1, unit);
    result.unit_panels = std::clamp<std::int64_t>(result.panels, 1, unit / result.unit_steps);
  } else {
    result.unit_panels = std::clamp<std::int64_t>(result.panels, 1, most_panels);
    result.unit_steps = std::clamp<std::int64_t>(result.steps, 1, unit / result.unit_panels);
  }
  return result;
}

}  // namespace nullscope::detail

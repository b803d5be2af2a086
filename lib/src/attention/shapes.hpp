/// The tiles of the attention kernels for each layout.
#pragma once

#include <nullscope/core/context.hpp>

#include "kernels/attention/shape.hpp"

namespace nullscope::detail {

/// With vectors of VectorBytes, for numbers of type T. 64 bytes come with 32 registers, 32 bytes with 16.
template <class T, int VectorBytes>
struct attention_vector_shapes {
  static constexpr int lanes = VectorBytes / sizeof(T);
  static constexpr bool many_registers = VectorBytes == 64;
  // Template arguments: lanes of a pack, rows and packs of a tile, block of keys.
  using forward = kernels::attention_query_lanes<lanes, many_registers ? 8 : 4, 3, 128>;
  // Lanes of a pack, rows and packs of a tile, lanes and workers of a work-group, block of keys.
  using weights = kernels::attention_tile_shape<lanes, many_registers ? 12 : 6, 2, 1, 1, 256>;
  // 192 keys are whole tiles of columns and, for the gradients of the keys, whole tiles of rows.
  using backward = kernels::attention_tile_shape<lanes, many_registers ? 12 : 6, 2, 1, 1, 192>;
};

using attention_work_items = kernels::attention_tile_shape<1, 4, 2, 16, 4, 64>;

/// Gradients in double: four rows spill registers on Intel GPUs.
template <class T>
using attention_gradient_work_items = kernels::attention_tile_shape<1, sizeof(T) == 8 ? 2 : 4, 2, 16, 4, 64>;

/// For heads so large that local memory does not hold several workers.
using attention_one_worker = kernels::attention_tile_shape<1, 4, 2, 16, 1, 64>;

/// Calls call.operator()<Bytes>() with the size of the layout's vectors, call.operator()<0>() if it has none.
template <class Call>
auto with_vector_bytes(const lane_layout& layout, Call call) {
  if (layout.vector_bytes == 64) return call.template operator()<64>();
  if (layout.vector_bytes == 32) return call.template operator()<32>();
  return call.template operator()<0>();
}

}  // namespace nullscope::detail

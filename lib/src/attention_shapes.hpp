/// Which layout the attention kernels take on a device.
#pragma once

#include <nullscope/device.hpp>
#include <optional>

#include "attention_shape.hpp"

namespace nullscope::detail {

enum class attention_lanes {
  vectors,     ///< a CPU
  work_items,  ///< a GPU
  one_worker,  ///< a GPU whose local memory does not hold heads of that size for several workers
  tiles,       ///< bfloat16 on a matrix engine, where there is one; other types as the device likes
};

/// For tests: attention takes this layout from now on; nothing: by the device again.
void force_attention_lanes(std::optional<attention_lanes> lanes);

/// vectors or work_items.
attention_lanes choose_attention_lanes(const sycl::device& device);

/// Attention of bfloat16 may take the matrix engine: nothing was forced, or just that.
bool attention_may_take_tiles();

// Template arguments: lanes of a pack, rows and packs of a tile, lanes and workers of a work-group, block of keys.
template <class T>
using attention_weights_vectors = kernels::attention_tile_shape<64 / sizeof(T), 12, 2, 1, 1, 256>;
// 192 keys are whole tiles of columns and, for the gradients of the keys, whole tiles of rows.
template <class T>
using attention_backward_vectors = kernels::attention_tile_shape<64 / sizeof(T), 12, 2, 1, 1, 192>;
using attention_work_items = kernels::attention_tile_shape<1, 4, 2, 16, 4, 64>;
using attention_one_worker = kernels::attention_tile_shape<1, 4, 2, 16, 1, 64>;  // panels as above

}  // namespace nullscope::detail

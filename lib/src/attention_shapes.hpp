/// Which layout the attention kernels take on a device.
#pragma once

#include <nullscope/device.hpp>
#include <optional>

#include "attention_shape.hpp"

namespace nullscope::detail {

enum class attention_lanes {
  vectors_512,  ///< a CPU with AVX-512: 32 registers of 64 bytes
  vectors_256,  ///< a CPU with AVX2: 16 registers of 32 bytes
  work_items,   ///< a GPU
  one_worker,   ///< a GPU whose local memory does not hold heads of that size for several workers
  tiles,        ///< bfloat16 on a matrix engine, where there is one; other types as the device likes
};

/// For tests: attention takes this layout from now on; nothing: by the device again.
void force_attention_lanes(std::optional<attention_lanes> lanes);

/// vectors_512, vectors_256 or work_items.
attention_lanes choose_attention_lanes(const sycl::device& device);

/// Attention of bfloat16 may take the matrix engine: nothing was forced, or just that.
bool attention_may_take_tiles();

/// The layouts of a CPU whose vectors have VectorBytes, for numbers of type T.
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
using attention_one_worker = kernels::attention_tile_shape<1, 4, 2, 16, 1, 64>;  // panels as above

/// Calls call.operator()<Bytes>() with the size of the vectors if the layout is one of vectors, call.operator()<0>() if
/// not.
template <class Call>
auto with_vector_bytes(attention_lanes lanes, Call call) {
  if (lanes == attention_lanes::vectors_512) return call.template operator()<64>();
  if (lanes == attention_lanes::vectors_256) return call.template operator()<32>();
  return call.template operator()<0>();
}

}  // namespace nullscope::detail

/// The tiles of the attention kernels for each layout.
#pragma once

#include "kernels/attention/shape.hpp"
#include "lib/src/core/dispatch.hpp"

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

/// Of attention itself: on a CPU lanes are queries.
template <class T>
using attention_forward_shapes = shape_list<shape_for<64, typename attention_vector_shapes<T, 64>::forward>,
                                            shape_for<32, typename attention_vector_shapes<T, 32>::forward>,
                                            shape_for<0, attention_work_items>, shape_for<0, attention_one_worker>>;

/// Of what keys receive.
template <class T>
using attention_received_shapes =
    shape_list<shape_for<64, typename attention_vector_shapes<T, 64>::weights>,
               shape_for<32, typename attention_vector_shapes<T, 32>::weights>, shape_for<0, attention_work_items>>;

/// Of attention's derivatives; WorkItems is the shape for GPUs.
template <class T, class WorkItems>
using attention_derivative_shapes =
    shape_list<shape_for<64, typename attention_vector_shapes<T, 64>::backward>,
               shape_for<32, typename attention_vector_shapes<T, 32>::backward>, shape_for<0, WorkItems>>;

}  // namespace nullscope::detail

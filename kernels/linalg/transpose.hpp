/// Out-of-place transpose of a batch of matrices.
#pragma once

#include <nullscope/core/view.hpp>

#include "kernels/linalg/transpose_block.hpp"

namespace nullscope::kernels {

/// out (batch, columns, rows) = transpose of x (batch, rows, columns); the last stride of both is 1. One group per
/// tile: with several lanes in blocks of W x W in registers, with one lane through local memory.
///
/// With AVX-512 a block reads and writes whole cache lines, each in another page of memory; tiles keep the number of
/// pages small. Blocks are taken along the rows of x, in pairs one below the other, so that lines are written in pairs.
template <class T, int W, int Items, bool Streams>
struct transpose_tiles {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;
  static constexpr std::int64_t local_side = 32;  // of a tile in local memory
  static constexpr std::int64_t local_stride = local_side + 1;
  static constexpr std::size_t local_bytes = W == 1 ? local_side * local_stride * sizeof(T) : 0;

  view<const T, 3> x;
  view<T, 3> out;
  std::int64_t tile_rows, tile_columns;

  std::int64_t tiles_down() const { return (x.extent[1] + tile_rows - 1) / tile_rows; }
  std::int64_t tiles_across() const { return (x.extent[2] + tile_columns - 1) / tile_columns; }

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    const group<Items> members(item);
    const std::int64_t across = tiles_across(), tiles = across * tiles_down();
    std::int64_t tile = members.number();
    const std::int64_t batch = tile / tiles;
    tile -= batch * tiles;
    const std::int64_t i = tile / across * tile_rows, j = tile % across * tile_columns;
    const T* from = &x(batch, i, j);
    T* to = &out(batch, j, i);
    const std::int64_t rows = sycl::min(tile_rows, x.extent[1] - i);
    const std::int64_t columns = sycl::min(tile_columns, x.extent[2] - j);
    if constexpr (W > 1) {
      through_registers(from, to, rows, columns);
    } else {
      through_local_memory(members, reinterpret_cast<T*>(local), from, to, rows, columns);
    }
  }

  void through_registers(const T* from, T* to, std::int64_t rows, std::int64_t columns) const {
    constexpr std::int64_t width = W;
    const std::int64_t stride = out.stride[1];
    for (std::int64_t i = 0; i < rows; i += 2 * width) {
      for (std::int64_t j = 0; j < columns; j += width) {
        const T* source = from + i * x.stride[1] + j;
        T* target = to + j * stride + i;
        if (i + 2 * width <= rows && j + width <= columns) {
          copy_transposed<W, Streams>(source, x.stride[1], target, stride);
          copy_transposed<W, Streams>(source + width * x.stride[1], x.stride[1], target + width, stride);
          continue;
        }
        for (std::int64_t below = 0; below < 2 * width && i + below < rows; below += width) {
          const std::int64_t rows_left = rows - i - below, columns_left = columns - j;
          if (rows_left >= width && columns_left >= width) {
            copy_transposed<W, Streams>(source + below * x.stride[1], x.stride[1], target + below, stride);
          } else {
            copy_transposed(source + below * x.stride[1], x.stride[1], target + below, stride,
                            sycl::min(width, rows_left), sycl::min(width, columns_left));
          }
        }
      }
    }
  }

  /// The tile is kept in local memory with a gap after each row, so that its columns fall into different banks.
  void through_local_memory(const group<Items>& members, T* tile, const T* from, T* to, std::int64_t rows,
                            std::int64_t columns) const {
    constexpr int side = local_side;
    constexpr int stride = local_stride;
    const int lane = members.rank() % side;
    for (int i = members.rank() / side; i < rows; i += Items / side) {
      if (lane < columns) tile[i * stride + lane] = from[i * x.stride[1] + lane];
    }
    members.barrier();
    for (int j = members.rank() / side; j < columns; j += Items / side) {
      if (lane < rows) to[j * out.stride[1] + lane] = tile[lane * stride + j];
    }
  }
};

}  // namespace nullscope::kernels

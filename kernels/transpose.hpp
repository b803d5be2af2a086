/// Out-of-place transpose of a batch of matrices.
#pragma once

#include <nullscope/view.hpp>

#include "pack.hpp"
#include "team.hpp"

namespace nullscope::kernels {

namespace detail {

/// Lanes that a transpose moves; it never computes with them.
template <class T>
using moved_lane = std::conditional_t<sizeof(T) == 2, std::uint16_t, T>;

/// Exchanges the upper half of each 2 * Half lanes of `a` with the lower half of those of `b`.
template <int Half, class Lanes, int... Lane>
void exchange(Lanes& a, Lanes& b, std::integer_sequence<int, Lane...>) {
  constexpr int width = sizeof...(Lane);
  const Lanes low = __builtin_shufflevector(a, b, ((Lane & Half) ? width + Lane - Half : Lane)...);
  b = __builtin_shufflevector(a, b, ((Lane & Half) ? width + Lane : Lane + Half)...);
  a = low;
}

/// Transposes block (W, W) in registers, in log2(W) steps of W / 2 exchanges. Written without loops: where the compiler
/// leaves one, it keeps the block in memory, which took half as long again.
template <int Half, class Lanes, int W>
void transpose_block(Lanes (&block)[W]) {
  const auto step = [&]<int... I>(std::integer_sequence<int, I...> lanes) {
    (((I & Half) == 0 ? exchange<Half>(block[I], block[I | Half], lanes) : void()), ...);
  };
  step(std::make_integer_sequence<int, W>{});
  if constexpr (Half > 1) transpose_block<Half / 2>(block);
}

}  // namespace detail

/// out (batch, columns, rows) = transpose of x (batch, rows, columns); the last stride of both is 1. A team handles a
/// tile: with several lanes in blocks of W x W in registers, with one lane through local memory.
///
/// A block reads and writes whole cache lines, so the tile is there for the pages of memory alone: each line of a block
/// is in another one. Its rows are read on and on, in two blocks one below the other, so that lines are written in
/// pairs. Share of the bandwidth of a copy, streaming, in one run a line; blocks in ones, pairs and fours that are read
/// on, ones that are written on (tile 64 x 64 in cache), pairs that fetch some blocks ahead:
///   8192 x 8192 float, tile 512 x 512:  0.76 0.87 0.67 0.50 0.82; pairs in 256 x 512 0.78, 128 x 512 0.67
///   2048 x 1536 float, tile 128 x 512:  0.57 0.80 0.76 0.75 0.75; pairs in 512 x 512 0.73, 64 x 64 0.72
///   2048 x 1536 double, tile 64 x 512:  0.60 0.88 0.81 0.75
///
/// With registers of 256 bits, on Zen 3, these blocks stay. Two of 8 x 8 float that fill lines together, measured in
/// turns with them: 1.34 of the time for 2048 x 1536, 1.08 for 8192 x 8192, where the same kernel twice differs by 1.1.
/// Native loops of two such blocks, share of a copy of 8192 x 8192 and 2048 x 1536 in one run, best of the tiles: 0.50
/// 0.58; a tile transposed in the cache, then written in runs of 256 bytes to 8 KiB, 0.43 0.53, with ordinary stores
/// 0.29 0.49. In another run 0.46 0.41; fetching the next rows 0.45 0.37, ahead in the same ones 0.46 0.38.
template <class T, int W, int Items, bool Streams>
struct transpose_tiles {
  static constexpr const char* source = "transpose.hpp";
  static constexpr int dimensions = 1;
  static constexpr bool one_work_item = Items == 1;
  static constexpr int local_side = 32;  // of a tile in local memory
  static constexpr std::size_t local_bytes = W > 1 ? 0 : local_side*(local_side + 1) * sizeof(T);

  view<const T, 3> x;
  view<T, 3> out;
  std::int64_t tile_rows, tile_columns;

  std::int64_t tiles_down() const { return (x.extent[1] + tile_rows - 1) / tile_rows; }
  std::int64_t tiles_across() const { return (x.extent[2] + tile_columns - 1) / tile_columns; }

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    const std::int64_t across = tiles_across(), tiles = across * tiles_down();
    std::int64_t tile = item.get_group(0);
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
      through_local_memory(team<Items>(item, local), reinterpret_cast<T*>(local), from, to, rows, columns);
    }
  }

  void through_registers(const T* from, T* to, std::int64_t rows, std::int64_t columns) const {
    constexpr std::int64_t width = W;
    constexpr auto lanes = std::make_integer_sequence<int, W>{};
    for (std::int64_t i = 0; i < rows; i += 2 * width) {
      for (std::int64_t j = 0; j < columns; j += width) {
        const T* source = from + i * x.stride[1] + j;
        T* target = to + j * out.stride[1] + i;
        if (i + 2 * width <= rows && j + width <= columns) {
          whole_block(source, target, lanes);
          whole_block(source + width * x.stride[1], target + width, lanes);
          continue;
        }
        for (std::int64_t below = 0; below < 2 * width && i + below < rows; below += width) {
          const std::int64_t rows_left = rows - i - below, columns_left = columns - j;
          if (rows_left >= width && columns_left >= width) {
            whole_block(source + below * x.stride[1], target + below, lanes);
          } else {
            part_of_block(source + below * x.stride[1], target + below, sycl::min(width, rows_left),
                          sycl::min(width, columns_left));
          }
        }
      }
    }
  }

  template <int... I>
  void whole_block(const T* from, T* to, std::integer_sequence<int, I...>) const {
    using lane = detail::moved_lane<T>;
    detail::lanes_t<lane, W> block[W];
    (__builtin_memcpy(&block[I], from + I * x.stride[1], sizeof(block[I])), ...);
    detail::transpose_block<W / 2>(block);
    if constexpr (Streams) {
      (stream(reinterpret_cast<lane*>(to + I * out.stride[1]), pack<lane, W>::from(block[I])), ...);
    } else {
      (__builtin_memcpy(to + I * out.stride[1], &block[I], sizeof(block[I])), ...);
    }
  }

  void part_of_block(const T* from, T* to, std::int64_t rows, std::int64_t columns) const {
    for (std::int64_t j = 0; j < columns; ++j) {
      for (std::int64_t i = 0; i < rows; ++i) to[j * out.stride[1] + i] = from[i * x.stride[1] + j];
    }
  }

  /// The tile stands in local memory with a gap a row, so that its columns fall into different banks.
  void through_local_memory(const team<Items>& members, T* tile, const T* from, T* to, std::int64_t rows,
                            std::int64_t columns) const {
    constexpr int side = local_side;
    const int lane = members.rank() % side;
    for (int i = members.rank() / side; i < rows; i += Items / side) {
      if (lane < columns) tile[i * (side + 1) + lane] = from[i * x.stride[1] + lane];
    }
    members.barrier();
    for (int j = members.rank() / side; j < columns; j += Items / side) {
      if (lane < rows) to[j * out.stride[1] + lane] = tile[lane * (side + 1) + j];
    }
  }
};

}  // namespace nullscope::kernels

/// Out-of-place transpose of a batch of matrices.
#pragma once

#include <nullscope/view.hpp>

#include "row.hpp"

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
/// With AVX-512 a block reads and writes whole cache lines, so the tile is there for the pages of memory alone: each
/// line of a block is in another one. Its rows are read on and on, in two blocks one below the other, so that lines are
/// written in pairs. Share of the bandwidth of a copy, streaming, in one run a line; blocks in ones, pairs and fours
/// that are read on, ones that are written on (tile 64 x 64 in cache), pairs that fetch some blocks ahead:
///   8192 x 8192 float, tile 512 x 512:  0.76 0.87 0.67 0.50 0.82; pairs in 256 x 512 0.78, 128 x 512 0.67
///   2048 x 1536 float, tile 128 x 512:  0.57 0.80 0.76 0.75 0.75; pairs in 512 x 512 0.73, 64 x 64 0.72
///   2048 x 1536 double, tile 64 x 512:  0.60 0.88 0.81 0.75
///
/// Zen 3 writes past the caches at the speed of a copy in runs of 2 KiB, but at a third of it in single lines of many
/// pages; so with packs of 256 bits a tile that streams is transposed into local memory, which the second cache keeps,
/// and then written row by row. Native loops, in one run a line: blocks as above in tiles of 128 x 512; written on,
/// 256 x 64; through memory in tiles of 128 x 128, the same fetching the next rows, 64 x 128, 128 x 256; two tiles in
/// turn, one read while the other is written:
///   8192 x 8192 float:  0.52 0.38 0.59 0.64 0.56 0.61 0.65;  2048 x 1536 float:  0.44 0.82 0.78 0.80 0.74 0.83 0.82
/// The kernel, medians in turns, time by that of blocks as above: 0.88 for 8192 x 8192, 0.82 for 2048 x 1536; of double
/// 1.1, so that stays in blocks. Tiles of 128 x 128 float took 1.04 and 1.2 times as long as those of 192 x 192.
template <class T, int W, int Items, bool Streams>
struct transpose_tiles {
  static constexpr const char* source = "transpose.hpp";
  static constexpr int dimensions = 1;
  static constexpr bool one_work_item = Items == 1;
  static constexpr std::int64_t bytes = sizeof(T), line = 64 / bytes;
  static constexpr bool is_kept = Streams && W * bytes < 64;    // the tile is transposed into local memory first
  static constexpr std::int64_t local_side = W > 1 ? 192 : 32;  // of a tile in local memory
  static constexpr std::int64_t local_stride = local_side + (W > 1 ? line : 1);
  static constexpr std::size_t local_bytes = is_kept || W == 1 ? local_side * local_stride * sizeof(T) : 0;

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
    T* kept = reinterpret_cast<T*>(local);
    if constexpr (is_kept) {
      into_local_memory(from, kept, rows, columns);
      from_local_memory(kept, to, rows, columns);
    } else if constexpr (W > 1) {
      through_registers(from, to, rows, columns);
    } else {
      through_local_memory(team<Items>(item, local), kept, from, to, rows, columns);
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
          whole_block<Streams>(source, target, stride);
          whole_block<Streams>(source + width * x.stride[1], target + width, stride);
          continue;
        }
        for (std::int64_t below = 0; below < 2 * width && i + below < rows; below += width) {
          const std::int64_t rows_left = rows - i - below, columns_left = columns - j;
          if (rows_left >= width && columns_left >= width) {
            whole_block<Streams>(source + below * x.stride[1], target + below, stride);
          } else {
            part_of_block(source + below * x.stride[1], target + below, stride, sycl::min(width, rows_left),
                          sycl::min(width, columns_left));
          }
        }
      }
    }
  }

  /// kept (columns, rows) = the tile transposed, with a gap a row, so that its columns fall into different sets of the
  /// caches. Reads W rows on and on, a cache line of each at a time, and fetches the next ones.
  void into_local_memory(const T* from, T* kept, std::int64_t rows, std::int64_t columns) const {
    constexpr std::int64_t width = W;
    for (std::int64_t i = 0; i < rows; i += width) {
      for (std::int64_t j = 0; j < columns; j += line) {
        const T* source = from + i * x.stride[1] + j;
        T* target = kept + j * local_stride + i;
        if (i + width <= rows && j + line <= columns) {
          for (std::int64_t below = width; below < 2 * width; ++below) fetch(source + below * x.stride[1]);
          for (std::int64_t k = 0; k < line; k += width) {
            whole_block<false>(source + k, target + k * local_stride, local_stride);
          }
        } else {
          part_of_block(source, target, local_stride, sycl::min(width, rows - i), sycl::min(line, columns - j));
        }
      }
    }
  }

  void from_local_memory(const T* kept, T* to, std::int64_t rows, std::int64_t columns) const {
    using lane = detail::moved_lane<T>;
    for (std::int64_t j = 0; j < columns; ++j) {
      const lane* source = reinterpret_cast<const lane*>(kept + j * local_stride);
      lane* target = reinterpret_cast<lane*>(to + j * out.stride[1]);
      std::int64_t i = 0;
      for (; i + W <= rows; i += W) stream(target + i, load<W>(source + i));
      store_tail(target + i, load_tail<W>(source + i, rows - i, 0), rows - i);
    }
  }

  /// to (W, W) = from (W, W) transposed.
  template <bool PastCaches>
  void whole_block(const T* from, T* to, std::int64_t to_stride) const {
    using lane = detail::moved_lane<T>;
    detail::lanes_t<lane, W> block[W];
    unrolled<W>([&](auto i) { __builtin_memcpy(&block[i], from + i * x.stride[1], sizeof(block[i])); });
    detail::transpose_block<W / 2>(block);
    unrolled<W>([&](auto i) {
      lane* target = reinterpret_cast<lane*>(to + i * to_stride);
      if constexpr (PastCaches) {
        stream(target, pack<lane, W>::from(block[i]));
      } else {
        store(target, pack<lane, W>::from(block[i]));
      }
    });
  }

  void part_of_block(const T* from, T* to, std::int64_t to_stride, std::int64_t rows, std::int64_t columns) const {
    for (std::int64_t j = 0; j < columns; ++j) {
      for (std::int64_t i = 0; i < rows; ++i) to[j * to_stride + i] = from[i * x.stride[1] + j];
    }
  }

  /// The tile stands in local memory with a gap a row, so that its columns fall into different banks.
  void through_local_memory(const team<Items>& members, T* tile, const T* from, T* to, std::int64_t rows,
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

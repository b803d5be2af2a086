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
/// tile of `size` x `size` elements: with several lanes in blocks of W x W in registers, with one lane through local
/// memory.
///
/// A block reads and writes whole cache lines, so the tile is there for the pages of memory alone: each line of a block
/// is in another one. From main memory large tiles win, in which rows are read on and on; in cache small ones, in which
/// rows are written on and on. Share of the bandwidth of a copy, floats, in one run, streaming:
///   7168 x 7680: tile 64 0.35 (written on) 0.39 (read on); 256 0.37, 0.58; 512 0.38, 0.6; by way of local memory 0.5
///   2048 x 1536: tile 64 0.74 (written on) 0.61 (read on); 256 0.63, 0.56; 512 0.62, 0.56; by way of local memory 0.58
template <class T, int W, int Items, bool Streams>
struct transpose_tiles {
  static constexpr const char* source = "transpose.hpp";
  static constexpr int dimensions = 1;
  static constexpr bool one_work_item = Items == 1;
  static constexpr int small_tile = W > 1 ? 64 : 32, large_tile = W > 1 ? 512 : 32;
  static constexpr std::size_t local_bytes = W > 1 ? 0 : small_tile*(small_tile + 1) * sizeof(T);

  view<const T, 3> x;
  view<T, 3> out;
  std::int64_t size;  // small_tile or large_tile

  std::int64_t tiles(std::int64_t extent) const { return (extent + size - 1) / size; }

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    const std::int64_t tiles_across = tiles(x.extent[2]), tiles_down = tiles(x.extent[1]);
    std::int64_t tile = item.get_group(0);
    const std::int64_t batch = tile / (tiles_across * tiles_down);
    tile -= batch * tiles_across * tiles_down;
    const std::int64_t i = tile / tiles_across * size, j = tile % tiles_across * size;
    const T* from = &x(batch, i, j);
    T* to = &out(batch, j, i);
    const std::int64_t rows = sycl::min(size, x.extent[1] - i);
    const std::int64_t columns = sycl::min(size, x.extent[2] - j);
    if constexpr (W > 1) {
      through_registers(from, to, rows, columns);
    } else {
      through_local_memory(team<Items>(item, local), reinterpret_cast<T*>(local), from, to, rows, columns);
    }
  }

  void through_registers(const T* from, T* to, std::int64_t rows, std::int64_t columns) const {
    const bool reads_on = size == large_tile;
    const std::int64_t outer = reads_on ? rows : columns, inner = reads_on ? columns : rows;
    for (std::int64_t a = 0; a < outer; a += W) {
      for (std::int64_t b = 0; b < inner; b += W) {
        const std::int64_t i = reads_on ? a : b, j = reads_on ? b : a;
        const T* source = from + i * x.stride[1] + j;
        T* target = to + j * out.stride[1] + i;
        if (i + W <= rows && j + W <= columns) {
          whole_block(source, target, std::make_integer_sequence<int, W>{});
        } else {
          constexpr std::int64_t width = W;
          part_of_block(source, target, sycl::min(width, rows - i), sycl::min(width, columns - j));
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
    constexpr int side = small_tile;
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

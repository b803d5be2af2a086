/// Blocks that are transposed in the registers of a work-item.
#pragma once

#include "kernels/linalg/row.hpp"

namespace nullscope::kernels {

namespace detail {

/// Exchanges the upper half of each 2 * Half lanes of `a` with the lower half of those of `b`.
template <int Half, class T, int W, int... Lane>
void exchange(pack<T, W>& a, pack<T, W>& b, std::integer_sequence<int, Lane...>) {
  const auto low = __builtin_shufflevector(a.lanes, b.lanes, ((Lane & Half) ? W + Lane - Half : Lane)...);
  b.lanes = __builtin_shufflevector(a.lanes, b.lanes, ((Lane & Half) ? W + Lane : Lane + Half)...);
  a.lanes = low;
}

template <int Half, class T, int W>
void transpose_in_steps(pack<T, W> (&block)[W]) {
  const auto step = [&]<int... I>(std::integer_sequence<int, I...> lanes) {
    (((I & Half) == 0 ? exchange<Half>(block[I], block[I | Half], lanes) : void()), ...);
  };
  step(std::make_integer_sequence<int, W>{});
  if constexpr (Half > 1) transpose_in_steps<Half / 2>(block);
}

/// The type in which a transpose moves elements; it never computes with them.
template <class T>
using moved_lane = std::conditional_t<sizeof(T) == 2, std::uint16_t, T>;

}  // namespace detail

/// block[i][j] <-> block[j][i], in log2(W) steps of W / 2 exchanges. Written without loops: with one, the compiler may
/// keep the block in memory.
template <class T, int W>
void transpose_block(pack<T, W> (&block)[W]) {
  if constexpr (W > 1) detail::transpose_in_steps<W / 2>(block);
}

/// to (W, W) = from (W, W) transposed; strides between rows.
template <int W, bool PastCaches, class T>
void copy_transposed(const T* from, std::int64_t from_stride, T* to, std::int64_t to_stride) {
  using lane = detail::moved_lane<T>;
  pack<lane, W> block[W];
  unrolled<W>([&](auto i) { block[i] = load<W>(reinterpret_cast<const lane*>(from + i * from_stride)); });
  transpose_block(block);
  unrolled<W>([&](auto i) {
    lane* target = reinterpret_cast<lane*>(to + i * to_stride);
    if constexpr (PastCaches) {
      stream(target, block[i]);
    } else {
      store(target, block[i]);
    }
  });
}

/// to (columns, rows) = from (rows, columns) transposed, for less than a whole block.
template <class T>
void copy_transposed(const T* from, std::int64_t from_stride, T* to, std::int64_t to_stride, std::int64_t rows,
                     std::int64_t columns) {
  for (std::int64_t j = 0; j < columns; ++j) {
    for (std::int64_t i = 0; i < rows; ++i) to[j * to_stride + i] = from[i * from_stride + j];
  }
}

}  // namespace nullscope::kernels

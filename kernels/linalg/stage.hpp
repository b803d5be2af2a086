/// Copies a block of a matrix with any strides into local memory, row after row.
#pragma once

#include <cstdint>

#include "kernels/linalg/transpose_block.hpp"

namespace nullscope::kernels {

/// A block (rows, columns) of a matrix in global memory: element (r, c) is data[r * row_stride + c * column_stride].
template <class T>
struct block {
  const T* data;
  std::int64_t row_stride, column_stride;
  std::int64_t rows, columns;
};

/// to[r * stride + c] = element (r, c) for r < padded_rows and c < padded_columns, zero where the block has no such
/// element. padded_columns is a multiple of W. Lanes x Rows work-items share the work, with the lanes along the
/// direction in which the source is dense; the calling work-item is (lane, row).
template <int W, int Lanes, int Rows, class In, class T>
void stage(const block<In>& from, int padded_rows, int padded_columns, T* to, int stride, int lane, int row) {
  if (from.column_stride == 1) {
    for (int r = row; r < padded_rows; r += Rows) {
      const In* source = from.data + r * from.row_stride;
      for (int c = lane * W; c < padded_columns; c += Lanes * W) {
        const std::int64_t count = r < from.rows ? from.columns - c : 0;
        store(to + r * stride + c, count >= W ? load<W>(source + c) : load_tail<W>(source + c, count, T(0)));
      }
    }
    return;
  }
  for (int r = lane * W; r < padded_rows; r += Lanes * W) {
    for (int c = row * W; c < padded_columns; c += Rows * W) {
      const In* source = from.data + r * from.row_stride + c * from.column_stride;
      const bool is_whole = r + W <= padded_rows && r + W <= from.rows && c + W <= from.columns;
      if (from.row_stride == 1 && is_whole) {
        pack<T, W> x[W];
#pragma unroll
        for (int i = 0; i < W; ++i) x[i] = load<W>(source + i * from.column_stride);
        transpose_block(x);
#pragma unroll
        for (int j = 0; j < W; ++j) store(to + (r + j) * stride + c, x[j]);
        continue;
      }
      for (int j = 0; j < W && r + j < padded_rows; ++j) {
        for (int i = 0; i < W; ++i) {
          const bool is_inside = r + j < from.rows && c + i < from.columns;
          to[(r + j) * stride + c + i] =
              is_inside ? static_cast<T>(source[j * from.row_stride + i * from.column_stride]) : T(0);
        }
      }
    }
  }
}

}  // namespace nullscope::kernels

/// Out-of-place transpose of a batch of large matrices through local memory, written past the caches: for CPUs with
/// registers of 256 bits.
#pragma once

#include <nullscope/core/view.hpp>

#include "kernels/linalg/transpose_block.hpp"

namespace nullscope::kernels {

/// out (batch, columns, rows) = transpose of x (batch, rows, columns); the last stride of both is 1, and the rows of
/// out begin at cache lines. A work-item takes a strip of tile_rows rows, tile after tile: it transposes a tile into
/// local memory, then writes it past the caches row by row while it prefetches the next tile, so that memory is read
/// and written at the same time, as by a copy. (Single cache lines in many pages are much slower to write than runs of
/// them.)
template <class T, int W>
struct transpose_strips {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = true;
  static constexpr std::int64_t line = 64 / sizeof(T);  // elements of a cache line
  static constexpr std::int64_t tile_rows = 4 * line, tile_columns = 4 * line;
  static constexpr std::int64_t kept_stride =
      tile_rows + line;  // with a gap, so that columns fall into different cache sets
  static constexpr std::size_t local_bytes = tile_columns * kept_stride * sizeof(T);
  static_assert(2 * W == line, "a pack is half a cache line");

  view<const T, 3> x;
  view<T, 3> out;
  std::int64_t strip_columns;

  std::int64_t strips_down() const { return (x.extent[1] + tile_rows - 1) / tile_rows; }
  std::int64_t strips_across() const { return (x.extent[2] + strip_columns - 1) / strip_columns; }
  std::int64_t strips() const { return x.extent[0] * strips_down() * strips_across(); }

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    const std::int64_t across = strips_across(), per_matrix = across * strips_down();
    const std::int64_t group = item.get_group(0), batch = group / per_matrix, strip = group % per_matrix;
    const std::int64_t first_row = strip / across * tile_rows, first_column = strip % across * strip_columns;
    const std::int64_t rows = sycl::min(tile_rows, x.extent[1] - first_row);
    const std::int64_t last_column = sycl::min(first_column + strip_columns, x.extent[2]);
    T* kept = reinterpret_cast<T*>(local);
    for (std::int64_t column = first_column; column < last_column; column += tile_columns) {
      const std::int64_t columns = sycl::min(tile_columns, last_column - column);
      const T* from = &x(batch, first_row, column);
      T* to = &out(batch, column, first_row);
      if (rows == tile_rows && columns == tile_columns) {  // loops of constant lengths
        keep(from, kept, tile_rows, tile_columns);
        write(kept, to, tile_rows, tile_columns, from + tile_columns);
      } else {
        keep(from, kept, rows, columns);
        write(kept, to, rows, columns, from + tile_columns);
      }
    }
  }

 private:
  /// kept (columns, rows) = from (rows, columns) transposed.
  void keep(const T* from, T* kept, std::int64_t rows, std::int64_t columns) const {
    constexpr std::int64_t width = W;
    const std::int64_t stride = x.stride[1];
    for (std::int64_t i = 0; i < rows; i += width) {
      for (std::int64_t j = 0; j < columns; j += width) {
        const T* source = from + i * stride + j;
        T* target = kept + j * kept_stride + i;
        if (i + width <= rows && j + width <= columns) {
          copy_transposed<W, false>(source, stride, target, kept_stride);
        } else {
          copy_transposed(source, stride, target, kept_stride, sycl::min(width, rows - i),
                          sycl::min(width, columns - j));
        }
      }
    }
  }

  /// to (columns, rows) = kept; prefetches a cache line of the tile that begins at `next` for each line that is
  /// written.
  void write(const T* kept, T* to, std::int64_t rows, std::int64_t columns, const T* next) const {
    using lane = detail::moved_lane<T>;
    // In registers: reading them between two stores past the caches would hold up the stores.
    const std::int64_t from_stride = x.stride[1], to_stride = out.stride[1];
    const T* next_row = next;
    for (std::int64_t j = 0; j < columns; ++j) {
      const lane* source = reinterpret_cast<const lane*>(kept + j * kept_stride);
      lane* target = reinterpret_cast<lane*>(to + j * to_stride);
      std::int64_t i = 0;
      for (; i + line <= rows; i += line) {
        fetch(next);
        next += line;
        if (next == next_row + tile_columns) next = next_row += from_stride;
        stream(target + i, load<W>(source + i));
        stream(target + i + W, load<W>(source + i + W));
      }
      if (i < rows) store_tail(target + i, load_tail<2 * W>(source + i, rows - i, 0), rows - i);
    }
  }
};

}  // namespace nullscope::kernels

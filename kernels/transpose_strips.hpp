/// Out-of-place transpose of a batch of matrices that stream, by way of local memory: for CPUs with registers of 256
/// bits.
#pragma once

#include <nullscope/view.hpp>

#include "transpose_block.hpp"

namespace nullscope::kernels {

/// out (batch, columns, rows) = transpose of x (batch, rows, columns); the last stride of both is 1, and the rows of
/// out begin at cache lines. A work-item takes a strip of tile_rows rows, tile after tile: transposes a tile into local
/// memory, then writes it past the caches, row by row, and meanwhile fetches the next tile, so that memory is read and
/// written at the same time, as it is by a copy. Lines of many pages that are written one by one would take three times
/// as long as runs of some of them (Zen 3).
///
/// Native loops on Zen 4, two cores, medians of nine in turns; share of a copy of 8192 x 8192, 7680 x 9600 and
/// 2048 x 1536 float:
///   tiles 192 x 192 that fetch the rows below while they are read   0.65    -    0.68 to 0.71
///   the same size, the next tile fetched while they are written     0.72    -    0.68
///   so 128 x 64                                                     0.76  0.72   0.73
///   so 64 x 64                                                      0.81  0.77   0.79
///   so 128 x 32                                                     0.81  0.86   0.80
///   so 256 x 32                                                     0.78  0.75   0.71
///   so 128 x 64, into the first cache instead of the second         0.57  0.57   0.71
/// Huge pages made no difference. The kernel, medians in turns: 128 x 32 takes 0.79 of the time of 192 x 192 that fetch
/// the rows below for 8192 x 8192, 0.89 for 2048 x 1536; with ordinary stores 2.07 and 1.43. By the time of 128 x 32,
/// in two runs, 64 x 64 takes 0.89 and 1.06 for 8192 x 8192, 0.97 for 2048 x 1536, 1.05 for 7680 x 9600, 0.85 for 30000
/// x 768; 96 x 64 0.90 and 1.04, 1.06, 1.01, 0.87; 256 x 32 1.02 and 1.09 for the first two.
///
/// On Zen 3 loops of constant lengths, and strides that are not read again between stores, take 0.81 to 0.99 of the
/// time, in most of seven runs 0.93 to 0.98, each of which gets other pages of memory: between them times differ by
/// half. 128 x 64, 128 x 128 and 64 x 128 are within 0.05 of 64 x 64 there; 32 x 64 and 64 x 32 take 1.1 and 1.4 times
/// as long, 256 x 64 1.1; fetching some blocks ahead of the reads, or half of it there and half while writing, 1.1 to
/// 1.3; reading one tile while another is written 1.2; transposing within 128 bits by interleaving, 24 instructions a
/// block instead of 32, 0.98. A native copy of runs of 256, 512 and 1024 bytes down a matrix, nothing transposed,
/// reaches 0.56, 0.81 and 0.84 of one along its rows.
template <class T, int W>
struct transpose_strips {
  static constexpr const char* source = "transpose_strips.hpp";
  static constexpr int dimensions = 1;
  static constexpr bool one_work_item = true;
  static constexpr std::int64_t line = 64 / sizeof(T);  // elements of a cache line
  static constexpr std::int64_t tile_rows = 4 * line, tile_columns = 4 * line;
  static constexpr std::int64_t kept_stride = tile_rows + line;  // a gap: columns fall into different sets of a cache
  static constexpr std::size_t local_bytes = tile_columns * kept_stride * sizeof(T);
  static_assert(2 * W == line, "a pack is half a cache line");

  view<const T, 3> x;
  view<T, 3> out;
  std::int64_t strip_columns;

  std::int64_t strips_down() const { return (x.extent[1] + tile_rows - 1) / tile_rows; }
  std::int64_t strips_across() const { return (x.extent[2] + strip_columns - 1) / strip_columns; }
  std::int64_t strips() const { return x.extent[0] * strips_down() * strips_across(); }

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    const std::int64_t across = strips_across(), of_a_matrix = across * strips_down();
    const std::int64_t group = item.get_group(0), batch = group / of_a_matrix, strip = group % of_a_matrix;
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

  /// to (columns, rows) = kept; fetches a cache line of the tile that begins at `next` for each one that is written.
  void write(const T* kept, T* to, std::int64_t rows, std::int64_t columns, const T* next) const {
    using lane = detail::moved_lane<T>;
    // In registers: what is read again between two stores past the caches holds them up.
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

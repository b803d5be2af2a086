/// c = alpha a b + beta c, staged in local memory and blocked for registers, for any strides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nullscope/core/view.hpp>
#include <sycl/sycl.hpp>

#include "kernels/group/group.hpp"
#include "kernels/group/sub_group_size.hpp"
#include "kernels/linalg/stage.hpp"
#include "kernels/simd/pack.hpp"

namespace nullscope::kernels {

/// How a work-group of ItemLanes x ItemRows work-items multiplies. A work-item keeps a tile of `Rows` rows by `Packs`
/// packs of W lanes in registers; the group walks along k in blocks of at most `Depth`.
template <int W, int Rows, int Packs, int ItemLanes, int ItemRows, int Depth>
struct gemm_shape {
  static constexpr int width = W, rows = Rows, packs = Packs, item_lanes = ItemLanes, item_rows = ItemRows;
  static constexpr int depth = Depth;
  static constexpr int work_items = ItemLanes * ItemRows;
  static constexpr int panel_columns = Packs * W * ItemLanes;  // of c, for all lanes side by side
  static constexpr int unroll = 4;                             // steps of k in the body of the innermost loop
  static constexpr int chunk = W > unroll ? W : unroll;        // a's rows are padded to a multiple of it
  // Not a power of two, so that the rows of a tile do not fall into the same cache sets or memory banks.
  static constexpr int a_stride = Depth + (W > 1 ? W : 1);
  static_assert(Depth % chunk == 0);
};

/// a (batch, m, k), b (batch, k, n), c (batch, m, n). A group computes `block_rows` row panels by `block_columns`
/// column panels of c; groups are numbered along the batch, then block rows, then block columns.
///
/// For each block of k the group stages its rows of a; then, panel after panel, the columns of b, each used by all row
/// panels. On GPUs a work-item has one tile, which stays in registers along all of k; on CPUs it has several, and the
/// sum of each block of k is added to c.
template <class In, class T, class Shape>
struct gemm_tiled {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Shape::work_items == 1;
  static constexpr int sub_group_size = one_work_item ? 0 : narrow_sub_group;
  using lanes = pack<T, Shape::width>;
  using tile = lanes[Shape::rows][Shape::packs];

  view<const In, 3> a, b;
  view<T, 3> c;
  T alpha, beta;
  std::int64_t block_rows, block_columns;  // numbers of blocks of c in each direction

  static constexpr std::size_t local_bytes(std::int64_t row_panels) {
    return sizeof(T) * (row_panels * Shape::rows * Shape::a_stride + Shape::depth * Shape::panel_columns);
  }

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    const group<Shape::work_items> members(item);
    const int lane = members.rank() % Shape::item_lanes, row = members.rank() / Shape::item_lanes;
    const std::int64_t block_column = members.number() % block_columns;
    const std::int64_t block_row = members.number() / block_columns % block_rows;
    const std::int64_t matrix = members.number() / block_columns / block_rows;
    const std::int64_t m = c.extent[1], n = c.extent[2], depth = a.extent[2];

    // Panels [first, last) of c, split as evenly as possible among the blocks.
    const std::int64_t row_panels = (m + Shape::rows - 1) / Shape::rows;
    const std::int64_t column_panels = (n + Shape::panel_columns - 1) / Shape::panel_columns;
    const std::int64_t first_row_panel = row_panels * block_row / block_rows;
    const int panels = static_cast<int>(row_panels * (block_row + 1) / block_rows - first_row_panel);
    const std::int64_t first_column_panel = column_panels * block_column / block_columns;
    const std::int64_t last_column_panel = column_panels * (block_column + 1) / block_columns;

    T* b_panel = reinterpret_cast<T*>(local);                    // (depth, panel_columns)
    T* a_block = b_panel + Shape::depth * Shape::panel_columns;  // (panels * rows, a_stride)
    const std::int64_t row0 = first_row_panel * Shape::rows;
    const In* a_rows = a.data + matrix * a.stride[0] + row0 * a.stride[1];
    const In* b_columns = b.data + matrix * b.stride[0];
    T* c_rows = c.data + matrix * c.stride[0] + row0 * c.stride[1];

    tile kept;  // along all of k, on GPUs
    const std::int64_t k_blocks = depth == 0 ? 1 : (depth + Shape::depth - 1) / Shape::depth;
    for (std::int64_t k_block = 0; k_block < k_blocks; ++k_block) {
      const std::int64_t k0 = depth * k_block / k_blocks;
      const int steps = static_cast<int>(depth * (k_block + 1) / k_blocks - k0);
      const int padded_steps = (steps + Shape::unroll - 1) / Shape::unroll * Shape::unroll;
      const int a_columns = (steps + Shape::chunk - 1) / Shape::chunk * Shape::chunk;
      members.barrier();
      stage<Shape::width, Shape::item_lanes, Shape::item_rows>(
          block<In>{a_rows + k0 * a.stride[2], a.stride[1], a.stride[2], m - row0, steps}, panels * Shape::rows,
          a_columns, a_block, Shape::a_stride, lane, row);
      for (std::int64_t panel = first_column_panel; panel < last_column_panel; ++panel) {
        const std::int64_t column0 = panel * Shape::panel_columns;
        if (panel > first_column_panel) members.barrier();
        stage<Shape::width, Shape::item_lanes, Shape::item_rows>(
            block<In>{b_columns + k0 * b.stride[1] + column0 * b.stride[2], b.stride[1], b.stride[2], steps,
                      n - column0},
            padded_steps, Shape::panel_columns, b_panel, Shape::panel_columns, lane, row);
        members.barrier();
        for (int p = row; p < panels; p += Shape::item_rows) {
          const T* a_panel = a_block + p * Shape::rows * Shape::a_stride;
          const std::int64_t column = column0 + lane * Shape::width;
          const place at{c_rows + p * Shape::rows * c.stride[1] + column * c.stride[2], m - row0 - p * Shape::rows,
                         n - column};
          if constexpr (one_work_item) {
            tile sum;  // its scope ends here, so that it stays in the 16 registers of AVX2
            clear(sum);
            multiply(a_panel, b_panel, padded_steps, sum);
            write(sum, at, k_block == 0 ? beta : T(1));
          } else {
            if (k_block == 0) clear(kept);
            multiply(a_panel, b_panel + lane * Shape::width, padded_steps, kept);
            if (k_block + 1 == k_blocks) write(kept, at, beta);
          }
        }
      }
    }
  }

 private:
  /// Where a tile begins in c, and how many rows and columns of c follow from there.
  struct place {
    T* to;
    std::int64_t rows, columns;
  };

  static void clear(tile& sum) {
#pragma unroll
    for (int i = 0; i < Shape::rows; ++i) {
#pragma unroll
      for (int p = 0; p < Shape::packs; ++p) sum[i][p] = lanes(T(0));
    }
  }

  /// sum (rows, packs) += a (rows, steps) b (steps, packs)
  static void multiply(const T* a, const T* b, int steps, tile& sum) {
    for (int k0 = 0; k0 < steps; k0 += Shape::unroll) {
#pragma unroll
      for (int k = 0; k < Shape::unroll; ++k) {
        lanes b_row[Shape::packs];
#pragma unroll
        for (int p = 0; p < Shape::packs; ++p) {
          b_row[p] = load<Shape::width>(b + k * Shape::panel_columns + p * Shape::item_lanes * Shape::width);
        }
#pragma unroll
        for (int i = 0; i < Shape::rows; ++i) {
          const lanes a_element(a[i * Shape::a_stride + k]);
#pragma unroll
          for (int p = 0; p < Shape::packs; ++p) sum[i][p] = fma(a_element, b_row[p], sum[i][p]);
        }
      }
      a += Shape::unroll;
      b += Shape::unroll * Shape::panel_columns;
    }
  }

  /// c = alpha sum + scale c at that place; scale 0 does not read c. Pack p of the tile is p * item_lanes * width
  /// columns to the right.
  void write(const tile& sum, const place& at, T scale) const {
    constexpr int pack_distance = Shape::item_lanes * Shape::width;
    const auto [to, rows, columns] = at;
    const bool is_whole = rows >= Shape::rows && columns >= (Shape::packs - 1) * pack_distance + Shape::width;
    if (c.stride[2] == 1 && is_whole) {
#pragma unroll
      for (int i = 0; i < Shape::rows; ++i) {
        T* to_row = to + i * c.stride[1];
#pragma unroll
        for (int p = 0; p < Shape::packs; ++p) {
          lanes result = lanes(alpha) * sum[i][p];
          if (scale != T(0)) result = fma(lanes(scale), load<Shape::width>(to_row + p * pack_distance), result);
          store(to_row + p * pack_distance, result);
        }
      }
      return;
    }
    tile copy;  // a separate array, because an index that is not constant keeps an array out of registers
#pragma unroll
    for (int i = 0; i < Shape::rows; ++i) {
#pragma unroll
      for (int p = 0; p < Shape::packs; ++p) copy[i][p] = sum[i][p];
    }
    for (int i = 0; i < Shape::rows && i < rows; ++i) {
      for (int p = 0; p < Shape::packs; ++p) {
        for (int l = 0; l < Shape::width && p * pack_distance + l < columns; ++l) {
          T& element = to[i * c.stride[1] + (p * pack_distance + l) * c.stride[2]];
          const T product = alpha * copy[i][p][l];
          element = scale == T(0) ? product : product + scale * element;
        }
      }
    }
  }
};

}  // namespace nullscope::kernels

/// The product of two factors in tiles on a matrix engine: AMX, XMX, tensor cores, matrix cores. For DPC++ only;
/// include it behind SYCL_EXT_ONEAPI_MATRIX.
///
/// A sub-group keeps 2 x 2 tiles of sums in the engine's registers and adds two tiles of a times two tiles of b for
/// each step of k: as many products as loads, the best ratio that AMX's eight registers allow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nullscope/core/bfloat16.hpp>
#include <nullscope/core/view.hpp>
#include <sycl/sycl.hpp>
// the run-time compiler's <sycl/sycl.hpp> does not include these
#include <sycl/ext/oneapi/bfloat16.hpp>
#include <sycl/ext/oneapi/matrix/matrix.hpp>

#include "kernels/core/address_spaces.hpp"
#include "kernels/group/collectives.hpp"
#include "kernels/linalg/block_grid.hpp"
#include "kernels/linalg/joint_matrix_target.hpp"

namespace nullscope::kernels {

/// c = alpha a b + beta c with a and b from to_tiles. One sub-group per work-group; work-groups are the blocks of
/// `grid`, and a block is block_rows x block_columns panels of two tiles. Between blocks of k the sums are kept in
/// local memory, 4 M N floats for each pair of panels, in the order [row panel][column panel][2 x 2 tiles][M][N].
template <int M, int N, int K, int SubGroup, bool PairedB>
struct gemm_joint_matrix {
  static constexpr const char* source = __FILE__;
  static constexpr int sub_group_size = SubGroup;

  const bfloat16 *a, *b;
  view<float, 3> c;
  float alpha, beta;
  bool is_plain;  // alpha = 1, beta = 0 and c is row-major: whole panels are stored directly from the engine
  std::int64_t a_batch_stride, b_batch_stride;  // elements of a matrix in tiles; 0: one matrix for the whole batch
  std::int64_t steps, block_steps;
  std::int64_t block_rows, block_columns;
  block_grid grid;

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    if constexpr (target_has_tiles<PairedB>()) {
      const block_grid::place place = grid.of(static_cast<std::int64_t>(item.get_group_linear_id()));
      const std::int64_t batch = place.batch;
      float* zeros = reinterpret_cast<float*>(local);
      const block area{place.row * block_rows, place.column * block_columns, zeros, zeros + tile_size};
      const int items = static_cast<int>(item.get_local_range(0));
      for (int e = static_cast<int>(item.get_local_id(0)); e < tile_size; e += items) zeros[e] = 0;
      sub_group_barrier(item.get_sub_group());
      const auto* tiles_of_a = reinterpret_cast<const element*>(a) + batch * a_batch_stride;
      const auto* tiles_of_b = reinterpret_cast<const element*>(b) + batch * b_batch_stride;
      for (std::int64_t step = 0; step < steps; step += block_steps) {
        multiply_block(item, batch, area, tiles_of_a, tiles_of_b, step);
      }
      finish(item, batch, area);
    }
  }

 private:
  using element = sycl::ext::oneapi::bfloat16;
  static constexpr int panel_rows = 2 * M, panel_columns = 2 * N, tile_size = M * N;
  static constexpr int a_step = panel_rows * K, b_step = panel_columns * K;  // elements

  struct block {
    std::int64_t first_row, first_column;  // panels
    const float* zeros;                    // a tile
    float* sums;
  };

  /// Adds steps [step, step + block_steps) to all sums of the block. A panel of b is read again for each panel of rows
  /// and stays in the first-level cache; the panels of a stream from the second-level cache.
  void multiply_block(sycl::nd_item<1> item, std::int64_t batch, const block& area, const element* tiles_of_a,
                      const element* tiles_of_b, std::int64_t step) const {
    const std::int64_t count = smaller(block_steps, steps - step);
    for (std::int64_t j = 0; j < columns_of(area); ++j) {
      for (std::int64_t i = 0; i < rows_of(area); ++i) {
        const std::int64_t row = area.first_row + i, column = area.first_column + j;
        const element* from_a = tiles_of_a + (row * steps + step) * a_step;
        const element* from_b = tiles_of_b + (column * steps + step) * b_step;
        float* sums = area.sums + (i * block_columns + j) * 4 * tile_size;
        float* to = step + count == steps && is_direct(row, column)
                        ? &c(batch, row * panel_rows, column * panel_columns)
                        : nullptr;
        multiply(item.get_sub_group(), from_a, from_b, count, step == 0 ? area.zeros : sums, sums, to);
      }
    }
    sub_group_barrier(item.get_sub_group());
  }

  /// Adds `count` steps to 2 x 2 tiles of sums, which start as zeros or as what is in local memory. The result goes to
  /// `to` in c, or to local memory if `to` is null.
  void multiply(sycl::sub_group group, const element* from_a, const element* from_b, std::int64_t count,
                const float* from, float* sums, float* to) const {
    namespace matrix = sycl::ext::oneapi::experimental::matrix;
    using sycl::ext::oneapi::experimental::matrix::layout;
    constexpr layout b_layout = PairedB ? layout::ext_intel_packed : layout::row_major;
    constexpr int b_stride = PairedB ? 2 * N : N;
    matrix::joint_matrix<sycl::sub_group, float, matrix::use::accumulator, M, N> c00, c01, c10, c11;
    const int next = from == sums ? tile_size : 0;  // there is only one tile of zeros
    matrix::joint_matrix_load(group, c00, in_local(from), N, layout::row_major);
    matrix::joint_matrix_load(group, c01, in_local(from + next), N, layout::row_major);
    matrix::joint_matrix_load(group, c10, in_local(from + 2 * next), N, layout::row_major);
    matrix::joint_matrix_load(group, c11, in_local(from + 3 * next), N, layout::row_major);
    for (std::int64_t s = 0; s < count; ++s, from_a += a_step, from_b += b_step) {
      matrix::joint_matrix<sycl::sub_group, element, matrix::use::a, M, K, layout::row_major> a0, a1;
      matrix::joint_matrix<sycl::sub_group, element, matrix::use::b, K, N, b_layout> b0, b1;
      matrix::joint_matrix_load(group, a0, in_global(from_a), K);
      matrix::joint_matrix_load(group, b0, in_global(from_b), b_stride);
      matrix::joint_matrix_load(group, b1, in_global(from_b + K * N), b_stride);
      matrix::joint_matrix_load(group, a1, in_global(from_a + M * K), K);
      matrix::joint_matrix_mad(group, c00, a0, b0, c00);
      matrix::joint_matrix_mad(group, c01, a0, b1, c01);
      matrix::joint_matrix_mad(group, c10, a1, b0, c10);
      matrix::joint_matrix_mad(group, c11, a1, b1, c11);
    }
    if (to != nullptr) {
      const std::int64_t stride = c.stride[1];
      matrix::joint_matrix_store(group, c00, in_global(to), stride, layout::row_major);
      matrix::joint_matrix_store(group, c01, in_global(to + N), stride, layout::row_major);
      matrix::joint_matrix_store(group, c10, in_global(to + M * stride), stride, layout::row_major);
      matrix::joint_matrix_store(group, c11, in_global(to + M * stride + N), stride, layout::row_major);
    } else {
      matrix::joint_matrix_store(group, c00, in_local(sums), N, layout::row_major);
      matrix::joint_matrix_store(group, c01, in_local(sums + tile_size), N, layout::row_major);
      matrix::joint_matrix_store(group, c10, in_local(sums + 2 * tile_size), N, layout::row_major);
      matrix::joint_matrix_store(group, c11, in_local(sums + 3 * tile_size), N, layout::row_major);
    }
  }

  /// c = alpha sums + beta c for the panels that were not stored directly: those at the edges, or all.
  void finish(sycl::nd_item<1> item, std::int64_t batch, const block& area) const {
    const int lane = static_cast<int>(item.get_local_id(0)), lanes = static_cast<int>(item.get_local_range(0));
    for (std::int64_t i = 0; i < rows_of(area); ++i) {
      for (std::int64_t j = 0; j < columns_of(area); ++j) {
        if (is_direct(area.first_row + i, area.first_column + j)) continue;
        const float* sums = area.sums + (i * block_columns + j) * 4 * tile_size;
        const std::int64_t row = (area.first_row + i) * panel_rows, column = (area.first_column + j) * panel_columns;
        const std::int64_t rows = smaller(panel_rows, c.extent[1] - row);
        for (std::int64_t r = 0; r < rows; ++r) {
          for (int tile = 0; tile < 2; ++tile) {
            for (int n = lane; n < N; n += lanes) {
              if (column + tile * N + n >= c.extent[2]) continue;
              const float sum = alpha * sums[(r / M * 2 + tile) * tile_size + r % M * N + n];
              float& to = c(batch, row + r, column + tile * N + n);
              to = beta == 0 ? sum : sum + beta * to;
            }
          }
        }
      }
    }
  }

  std::int64_t rows_of(const block& area) const {
    return smaller(block_rows, (c.extent[1] + panel_rows - 1) / panel_rows - area.first_row);
  }
  std::int64_t columns_of(const block& area) const {
    return smaller(block_columns, (c.extent[2] + panel_columns - 1) / panel_columns - area.first_column);
  }
  bool is_direct(std::int64_t row, std::int64_t column) const {
    return is_plain && (row + 1) * panel_rows <= c.extent[1] && (column + 1) * panel_columns <= c.extent[2];
  }

  static std::int64_t smaller(std::int64_t x, std::int64_t y) { return x < y ? x : y; }
};

}  // namespace nullscope::kernels

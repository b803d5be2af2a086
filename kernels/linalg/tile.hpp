/// The innermost loop of every matrix product: a tile of rows by packs that stays in registers.
#pragma once

#include <cstdint>

#include "kernels/simd/pack.hpp"

namespace nullscope::kernels {

/// tile (Rows, Packs) = 0
template <class T, int W, int Rows, int Packs>
void clear_tile(pack<T, W> (&tile)[Rows][Packs]) {
#pragma unroll
  for (int i = 0; i < Rows; ++i) {
#pragma unroll
    for (int p = 0; p < Packs; ++p) tile[i][p] = pack<T, W>(T(0));
  }
}

/// Pack p of row i of a tile begins at memory[i * stride + p * PackDistance].
template <int PackDistance, class T, int W, int Rows, int Packs>
void store_tile(T* memory, std::int64_t stride, const pack<T, W> (&tile)[Rows][Packs]) {
#pragma unroll
  for (int i = 0; i < Rows; ++i) {
#pragma unroll
    for (int p = 0; p < Packs; ++p) store(memory + i * stride + p * PackDistance, tile[i][p]);
  }
}

/// Adds a tile to memory. A long sum is computed as a sum of shorter ones that start at zero, so that small terms are
/// not lost one by one next to a large total.
template <int PackDistance, class T, int W, int Rows, int Packs>
void add_tile(T* memory, std::int64_t stride, const pack<T, W> (&tile)[Rows][Packs]) {
#pragma unroll
  for (int i = 0; i < Rows; ++i) {
#pragma unroll
    for (int p = 0; p < Packs; ++p) {
      T* to = memory + i * stride + p * PackDistance;
      store(to, load<W>(to) + tile[i][p]);
    }
  }
}

/// sum (Rows, Packs) += a (Rows) b (Packs packs)
template <int PackDistance, class T, int W, int Rows, int Packs>
void add_products(const T (&a)[Rows], const T* b, pack<T, W> (&sum)[Rows][Packs]) {
  pack<T, W> b_row[Packs];
#pragma unroll
  for (int p = 0; p < Packs; ++p) b_row[p] = load<W>(b + p * PackDistance);
#pragma unroll
  for (int i = 0; i < Rows; ++i) {
#pragma unroll
    for (int p = 0; p < Packs; ++p) sum[i][p] = fma(pack<T, W>(a[i]), b_row[p], sum[i][p]);
  }
}

/// sum (Rows, Packs) += a (Rows, steps) b (steps, Packs packs). Element (i, k) of a is a[i * ARow + k * AStep]; pack p
/// of row k of b begins at b[k * BRow + p * PackDistance]. The strides are constants and become part of the
/// instructions.
template <int ARow, int AStep, int BRow, int PackDistance, class T, int W, int Rows, int Packs>
void multiply_tile(const T* a, const T* b, int steps, pack<T, W> (&sum)[Rows][Packs]) {
#pragma unroll 4
  for (int k = 0; k < steps; ++k) {
    T a_column[Rows];
#pragma unroll
    for (int i = 0; i < Rows; ++i) a_column[i] = a[i * ARow + k * AStep];
    add_products<PackDistance>(a_column, b + k * BRow, sum);
  }
}

/// The same with element (i, k) of a at a_rows[i][k]: rows that are used where they are in memory.
template <int BRow, int PackDistance, class T, int W, int Rows, int Packs>
void multiply_tile_rows(const T* const (&a_rows)[Rows], const T* b, int steps, pack<T, W> (&sum)[Rows][Packs]) {
#pragma unroll 4
  for (int k = 0; k < steps; ++k) {
    T a_column[Rows];
#pragma unroll
    for (int i = 0; i < Rows; ++i) a_column[i] = a_rows[i][k];
    add_products<PackDistance>(a_column, b + k * BRow, sum);
  }
}

/// The same with element (i, k) of a at a[k * a_step + i].
template <int BRow, int PackDistance, class T, int W, int Rows, int Packs>
void multiply_tile_columns(const T* a, std::int64_t a_step, const T* b, int steps, pack<T, W> (&sum)[Rows][Packs]) {
  for (int k = 0; k < steps; ++k, a += a_step) {
    T a_column[Rows];
#pragma unroll
    for (int i = 0; i < Rows; ++i) a_column[i] = a[i];
    add_products<PackDistance>(a_column, b + k * BRow, sum);
  }
}

}  // namespace nullscope::kernels

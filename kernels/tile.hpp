/// The innermost loop of every product of matrices: a tile of rows by packs, kept in registers.
#pragma once

#include "pack.hpp"

namespace nullscope::kernels {

/// sum (Rows, Packs) += a (Rows, steps) b (steps, Packs packs). Element (i, k) of a is a[i * ARow + k * AStep]; pack p
/// of row k of b begins at b[k * BRow + p * PackDistance]. The strides are constants, so that each is part of an
/// instruction.
template <int ARow, int AStep, int BRow, int PackDistance, class T, int W, int Rows, int Packs>
void multiply_tile(const T* a, const T* b, int steps, pack<T, W> (&sum)[Rows][Packs]) {
#pragma unroll 4
  for (int k = 0; k < steps; ++k) {
    pack<T, W> b_row[Packs];
#pragma unroll
    for (int p = 0; p < Packs; ++p) b_row[p] = load<W>(b + k * BRow + p * PackDistance);
#pragma unroll
    for (int i = 0; i < Rows; ++i) {
      const pack<T, W> a_element(a[i * ARow + k * AStep]);
#pragma unroll
      for (int p = 0; p < Packs; ++p) sum[i][p] = fma(a_element, b_row[p], sum[i][p]);
    }
  }
}

}  // namespace nullscope::kernels

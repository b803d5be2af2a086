/// QR of tall matrices, one per lane, by a flat tree: the first n rows are factored, then every block of
/// rows is eliminated against the triangle R, so that only R and one block are in the cache at a time.
#pragma once

#include "kernels/linalg/svd/bidiagonal.hpp"

namespace nullscope::kernels {

/// top (n, n) becomes R above and on its diagonal, and reflections below it.
template <class P>
void factor_top(P* top, std::int64_t stride, std::int64_t n, P* tau, reduction_workspace<P> work) {
  for (std::int64_t k = 0; k < n; ++k) {
    P* const corner = top + k * stride + k;
    const std::int64_t rows = n - k - 1;
    tau[k] = reflect_column(corner[0], corner + stride, stride, rows, work.v);
    for (std::int64_t c = 0; c < rows; ++c) work.w[c] = corner[1 + c];
    const block_pass<P> pass{corner + stride + 1, stride, rows, rows, work.v, work.w, nullptr, nullptr, work.v, work.w};
    run_pass<0, true>(pass);
    for (std::int64_t c = 0; c < rows; ++c) {
      work.w[c] *= tau[k];
      corner[1 + c] -= work.w[c];
    }
    run_pass<1, false>(pass);
  }
}

/// Eliminates block (rows, n) against the triangle in `top`: its columns become the reflections.
template <class P>
void factor_block(P* top, P* block, std::int64_t stride, std::int64_t rows, std::int64_t n, P* tau,
                  reduction_workspace<P> work) {
  for (std::int64_t k = 0; k < n; ++k) {
    P* const row = top + k * stride;
    tau[k] = reflect_column(row[k], block + k, stride, rows, work.v_next);
    if (k + 1 == n) break;
    for (std::int64_t c = k + 1; c < n; ++c) work.w_next[c] = row[c];
    const block_pass<P> pass{block + k + 1,  stride,  rows,    n - k - 1,   work.v,
                             work.w + k + 1, nullptr, nullptr, work.v_next, work.w_next + k + 1};
    if (k == 0) {
      run_pass<0, true>(pass);
    } else {
      run_pass<1, true>(pass);
    }
    for (std::int64_t c = k + 1; c < n; ++c) {
      work.w_next[c] *= tau[k];
      row[c] -= work.w_next[c];
    }
    for (std::int64_t r = 0; r < rows; ++r) block[r * stride + k + 1] -= work.v_next[r] * work.w_next[k + 1];
    work.advance();
  }
}

/// (c; result) = Q (c; 0), with the n reflections in the columns of block (rows, n); c (n, n), result (rows, n).
template <class P>
void apply_block(P* c, std::int64_t c_stride, const P* block, std::int64_t stride, std::int64_t rows, std::int64_t n,
                 const P* tau, P* result, reduction_workspace<P> work) {
  for (std::int64_t i = 0; i < rows * stride; ++i) result[i] = P(0);
  const auto prepare = [&](std::int64_t k) {
    for (std::int64_t r = 0; r < rows; ++r) work.v_next[r] = block[r * stride + k];
    for (std::int64_t j = 0; j < n; ++j) work.w_next[j] = c[k * c_stride + j];
  };
  prepare(n - 1);
  for (std::int64_t k = n - 1; k >= 0; --k) {
    work.advance();
    for (std::int64_t j = 0; j < n; ++j) {
      work.w[j] *= tau[k];
      c[k * c_stride + j] -= work.w[j];
    }
    if (k > 0) prepare(k - 1);
    const block_pass<P> pass{result, stride, rows, n, work.v, work.w, nullptr, nullptr, work.v_next, work.w_next};
    if (k > 0) {
      run_pass<1, true>(pass);
    } else {
      run_pass<1, false>(pass);
    }
  }
}

/// c (n, n) = Q c, with the reflections below the diagonal of top.
template <class P>
void apply_top(P* c, std::int64_t c_stride, const P* top, std::int64_t stride, std::int64_t n, const P* tau,
               reduction_workspace<P> work) {
  for (std::int64_t k = n - 1; k >= 0; --k) {
    const std::int64_t rows = n - k - 1;
    for (std::int64_t r = 0; r < rows; ++r) work.v[r] = top[(k + 1 + r) * stride + k];
    for (std::int64_t j = 0; j < n; ++j) work.w[j] = c[k * c_stride + j];
    const block_pass<P> pass{
        c + (k + 1) * c_stride, c_stride, rows, n, work.v, work.w, nullptr, nullptr, work.v, work.w};
    run_pass<0, true>(pass);
    for (std::int64_t j = 0; j < n; ++j) {
      work.w[j] *= tau[k];
      c[k * c_stride + j] -= work.w[j];
    }
    run_pass<1, false>(pass);
  }
}

}  // namespace nullscope::kernels

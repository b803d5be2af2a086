/// A = Q B P^T with B upper bidiagonal, and the orthogonal factors from their reflections, one matrix per lane.
#pragma once

#include "kernels/linalg/svd/reflect.hpp"

namespace nullscope::kernels {

/// Vectors of packs that the reductions work with, `length` each.
template <class P>
struct reduction_workspace {
  P *v, *v_next;  // left reflection: pending, new
  P *w, *w_next;  // projections on it
  P *x, *u;       // right reflection and its projections
  static constexpr std::int64_t vectors = 6;

  reduction_workspace(P* memory, std::int64_t length)
      : v(memory),
        v_next(memory + length),
        w(memory + 2 * length),
        w_next(memory + 3 * length),
        x(memory + 4 * length),
        u(memory + 5 * length) {}

  void advance() {
    P* const old_v = v;
    P* const old_w = w;
    v = v_next;
    w = w_next;
    v_next = old_v;
    w_next = old_w;
  }
};

/// Reduces a (m, n), m >= n, to d (n) and e (n - 1). On return column k of `a` holds the left reflection k below the
/// diagonal (tau_left (n)), row k the right reflection k from column k + 2 on (tau_right (n - 1)).
///
/// Two passes over the trailing block per step instead of four: the update by step k - 1, of rank two, also projects on
/// the left reflection of step k; the product with the right reflection is corrected for the update that is still
/// pending.
template <class P>
void bidiagonalise(P* a, std::int64_t stride, std::int64_t m, std::int64_t n, P* d, P* e, P* tau_left, P* tau_right,
                   reduction_workspace<P> work) {
  for (std::int64_t k = 0; k < n; ++k) {
    P* const corner = a + k * stride + k;
    tau_left[k] = reflect_column(corner[0], corner + stride, stride, m - k - 1, work.v_next + k + 1);
    work.v_next[k] = P(1);
    d[k] = corner[0];
    if (k + 1 == n) break;

    // w = tau A^T v, (n - k - 1), while A gets the update that was pending
    const std::int64_t columns = n - k - 1;
    for (std::int64_t c = k + 1; c < n; ++c) work.w_next[c] = P(0);
    const block_pass<P> pass{corner + 1,     stride,     m - k,          columns,         work.v + k,
                             work.w + k + 1, work.x + k, work.u + k + 1, work.v_next + k, work.w_next + k + 1};
    if (k == 0) {
      run_pass<0, true>(pass);
    } else {
      run_pass<2, true>(pass);
    }
    for (std::int64_t c = k + 1; c < n; ++c) {
      work.w_next[c] *= tau_left[k];
      a[k * stride + c] -= work.w_next[c];
    }

    // row k is up to date: the right reflection, u (n - k - 1)
    tau_right[k] = reflect_column(corner[1], corner + 2, 1, columns - 1, work.u + k + 2);
    work.u[k + 1] = P(1);
    e[k] = corner[1];

    // x = tau (A - v w^T) u, (m - k - 1)
    P shared(0);
    for (std::int64_t c = k + 1; c < n; ++c) shared = fma(work.w_next[c], work.u[c], shared);
    multiply_rows(corner + stride + 1, stride, m - k - 1, columns, work.u + k + 1, work.x + k + 1);
    for (std::int64_t r = k + 1; r < m; ++r) {
      work.x[r] = tau_right[k] * (work.x[r] - work.v_next[r] * shared);
      a[r * stride + k + 1] -= work.v_next[r] * work.w_next[k + 1] + work.x[r];  // the next column, ahead of the rest
    }
    work.advance();
  }
}

/// q (rows, columns) holds `count` reflections in its first columns, below the diagonal; it becomes their product
/// H_0 H_1 ... applied to the first `columns` columns of the identity, in place.
template <class P>
void accumulate_reflections(P* q, std::int64_t stride, std::int64_t rows, std::int64_t columns, std::int64_t count,
                            const P* tau, reduction_workspace<P> work) {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = count; c < columns; ++c) q[r * stride + c] = P(r == c ? 1 : 0);
  }
  if (count == 0) return;
  const auto read = [&](std::int64_t k, P* v) {
    v[k] = P(1);
    for (std::int64_t r = k + 1; r < rows; ++r) v[r] = q[r * stride + k];
  };
  read(count - 1, work.v);
  for (std::int64_t c = count; c < columns; ++c) work.w[c] = c < rows ? work.v[c] : P(0);
  for (std::int64_t k = count - 1; k >= 0; --k) {
    for (std::int64_t c = k + 1; c < columns; ++c) work.w[c] *= tau[k];
    // the block below and right of (k, k) gets reflection k and is projected on reflection k - 1
    const block_pass<P> pass{q + (k + 1) * stride + k + 1,
                             stride,
                             rows - k - 1,
                             columns - k - 1,
                             work.v + k + 1,
                             work.w + k + 1,
                             nullptr,
                             nullptr,
                             work.v_next + k + 1,
                             work.w_next + k + 1};
    if (k > 0) {
      read(k - 1, work.v_next);
      for (std::int64_t c = k + 1; c < columns; ++c) work.w_next[c] = -work.v_next[k] * work.w[c];
      run_pass<1, true>(pass);
    } else {
      run_pass<1, false>(pass);
    }
    // row k and column k, which were those of the identity
    for (std::int64_t c = k + 1; c < columns; ++c) q[k * stride + c] = -work.w[c];
    q[k * stride + k] = P(1) - tau[k];
    P projection = work.v_next[k] * q[k * stride + k];
    for (std::int64_t r = k + 1; r < rows; ++r) {
      const P element = -tau[k] * work.v[r];
      q[r * stride + k] = element;
      if (k > 0) projection = fma(work.v_next[r], element, projection);
    }
    work.w_next[k] = projection;
    work.advance();
  }
}

/// The right factor P (n, n) from what `bidiagonalise` left above the diagonal of a.
template <class P>
void accumulate_right(const P* a, std::int64_t stride, std::int64_t n, P* right, std::int64_t right_stride,
                      const P* tau_right, reduction_workspace<P> work) {
  for (std::int64_t k = 0; k < n; ++k) right[k] = right[k * right_stride] = P(k == 0 ? 1 : 0);
  P* const block = right + right_stride + 1;  // (n - 1, n - 1)
  for (std::int64_t k = 0; k + 1 < n; ++k) {
    for (std::int64_t c = k + 2; c < n; ++c) block[(c - 1) * right_stride + k] = a[k * stride + c];
  }
  if (n > 1) accumulate_reflections(block, right_stride, n - 1, n - 1, n - 1, tau_right, work);
}

}  // namespace nullscope::kernels

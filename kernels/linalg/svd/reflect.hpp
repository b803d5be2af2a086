/// Householder reflections H = I - tau v v^T of several matrices, one matrix per lane. A matrix of packs is row-major
/// with `stride` packs per row; P is pack<T, W>.
#pragma once

#include "kernels/linalg/svd/lanes.hpp"
#include "kernels/linalg/svd/problem.hpp"

namespace nullscope::kernels {

template <class P>
struct reflection {
  P tau;
  P beta;     ///< H (alpha, x) = (beta, 0)
  P inverse;  ///< v = (1, x * inverse)
};

/// The reflection that maps (alpha, x) to (beta, 0), given the sum of squares of x. The identity where x is zero.
template <class T, int W>
reflection<pack<T, W>> make_reflection(pack<T, W> alpha, pack<T, W> squares) {
  using P = pack<T, W>;
  const auto is_needed = greater(squares, P(negligible_square<T>));
  const P beta = -with_sign_of(sqrt(fma(alpha, alpha, squares)), alpha);
  const P safe_beta = select(is_needed, beta, P(1));
  const P difference = select(is_needed, alpha - beta, P(1));
  return {select(is_needed, -difference / safe_beta, P(0)), select(is_needed, beta, alpha),
          select(is_needed, P(1) / difference, P(0))};
}

/// What one pass over a block does: a (rows, columns) -= v w^T [- x u^T], then projection (columns) += next^T a.
template <class P>
struct block_pass {
  P* a;
  std::int64_t stride;
  std::int64_t rows, columns;
  const P *v, *w;  ///< first update, (rows) and (columns)
  const P *x, *u;  ///< second update
  const P* next;   ///< (rows)
  P* projection;   ///< (columns)
};

/// `Columns` columns of a pass; their factors and sums stay in registers.
template <int Updates, bool Project, int Columns, class P>
void run_columns(const block_pass<P>& pass, std::int64_t first) {
  P w[Columns], u[Columns], sum[Columns];
#pragma unroll
  for (int c = 0; c < Columns; ++c) {
    if constexpr (Updates > 0) w[c] = -pass.w[first + c];
    if constexpr (Updates > 1) u[c] = -pass.u[first + c];
    if constexpr (Project) sum[c] = pass.projection[first + c];
  }
  P* row = pass.a + first;
  for (std::int64_t r = 0; r < pass.rows; ++r, row += pass.stride) {
    P v, x, next;
    if constexpr (Updates > 0) v = pass.v[r];
    if constexpr (Updates > 1) x = pass.x[r];
    if constexpr (Project) next = pass.next[r];
#pragma unroll
    for (int c = 0; c < Columns; ++c) {
      P element = row[c];
      if constexpr (Updates > 0) element = fma(v, w[c], element);
      if constexpr (Updates > 1) element = fma(x, u[c], element);
      if constexpr (Updates > 0) row[c] = element;
      if constexpr (Project) sum[c] = fma(next, element, sum[c]);
    }
  }
  if constexpr (Project) {
#pragma unroll
    for (int c = 0; c < Columns; ++c) pass.projection[first + c] = sum[c];
  }
}

template <int Updates, bool Project, class P>
void run_pass(const block_pass<P>& pass) {
  std::int64_t c = 0;
  for (; c + 4 <= pass.columns; c += 4) run_columns<Updates, Project, 4>(pass, c);
  for (; c < pass.columns; ++c) run_columns<Updates, Project, 1>(pass, c);
}

/// result[r] = sum over c of a[r][c] u[c]
template <class P>
void multiply_rows(const P* a, std::int64_t stride, std::int64_t rows, std::int64_t columns, const P* u, P* result) {
  std::int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const P* row = a + r * stride;
    P sum0(0), sum1(0), sum2(0), sum3(0);
    for (std::int64_t c = 0; c < columns; ++c) {
      const P factor = u[c];
      sum0 = fma(row[c], factor, sum0);
      sum1 = fma(row[stride + c], factor, sum1);
      sum2 = fma(row[2 * stride + c], factor, sum2);
      sum3 = fma(row[3 * stride + c], factor, sum3);
    }
    result[r] = sum0;
    result[r + 1] = sum1;
    result[r + 2] = sum2;
    result[r + 3] = sum3;
  }
  for (; r < rows; ++r) {
    P sum(0);
    for (std::int64_t c = 0; c < columns; ++c) sum = fma(a[r * stride + c], u[c], sum);
    result[r] = sum;
  }
}

/// Reflects column (alpha, x), x (rows) with `stride` between its elements, in place: x becomes v, which is also copied
/// to `v` (rows). Returns beta through `alpha`, and tau.
template <class P>
P reflect_column(P& alpha, P* x, std::int64_t stride, std::int64_t rows, P* v) {
  P squares(0);
  for (std::int64_t r = 0; r < rows; ++r) squares = fma(x[r * stride], x[r * stride], squares);
  const auto reflection = make_reflection(alpha, squares);
  alpha = reflection.beta;
  for (std::int64_t r = 0; r < rows; ++r) x[r * stride] = v[r] = x[r * stride] * reflection.inverse;
  return reflection.tau;
}

}  // namespace nullscope::kernels

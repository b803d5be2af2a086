/// Cholesky factors of a small symmetric matrix by one group, and what is solved with them. Matrices lie as those of
/// dense.hpp.
#pragma once

#include <cstdint>
#include <sycl/sycl.hpp>

#include "kernels/linalg/dense.hpp"

namespace nullscope::kernels {

/// a (n, n) = u^T u in place: the upper triangle of a symmetric matrix with a diagonal near 1 becomes u;
/// inverse[i] = 1 / u[i][i]. A pivot that is not above `tolerance` depends on the columns before it: its row of u and
/// its inverse become 0, which leaves its unknown out of what is solved later.
template <int W, class T, int Items>
void cholesky(const group<Items>& members, T* a, std::int64_t n, std::int64_t ld, T* inverse, T tolerance) {
  members.barrier();
  for (std::int64_t first = 0; first < n; first += product_rows) {
    const std::int64_t end = first + product_rows < n ? first + product_rows : n;
    const coefficients<T> above{a + first, ld, 1};
    if (end - first == product_rows) {
      add_product_rows<product_rows, W>(members, a + first * ld, ld, above, a, first, first, T(-1));
    } else {
      add_product<W>(members, a + first * ld, end - first, ld, above, a, first, T(-1));
    }
    members.barrier();
    for (std::int64_t i = first; i < end; ++i) {
      T* const row = a + i * ld;
      const T pivot = row[i], scale = pivot > tolerance ? 1 / sycl::sqrt(pivot) : T(0);
      T factors[product_rows];  // read before the row is scaled
      for (std::int64_t below = i + 1; below < end; ++below) factors[below - first] = row[below] * scale * scale;
      members.barrier();
      for (std::int64_t below = i + 1; below < end; ++below) {
        add_row<W>(members, a + below * ld, row, ld, -factors[below - first], first);
      }
      scale_row<W>(members, row, ld, scale, first);  // the same columns as above; nobody reads those before i
      if (members.rank() == 0) inverse[i] = scale;
      members.barrier();
    }
  }
}

/// b (n, columns) = u^-T b in place.
template <int W, class T, int Items>
void solve_transposed(const group<Items>& members, const T* u, const T* inverse, std::int64_t n, std::int64_t ld,
                      T* b) {
  members.barrier();
  for (std::int64_t i = 0; i < n; ++i) {  // each work-item goes down its own columns
    const coefficients<T> above{u + i, ld, 1};
    if (i % product_rows == 0 && i + product_rows <= n) {
      add_product_rows<product_rows, W>(members, b + i * ld, ld, above, b, i, 0, T(-1));
    } else if (i % product_rows != 0 && i / product_rows * product_rows + product_rows <= n) {
      const std::int64_t first = i / product_rows * product_rows;
      for (std::int64_t k = first; k < i; ++k) add_row<W>(members, b + i * ld, b + k * ld, ld, -u[k * ld + i]);
    } else {
      add_product_rows<1, W>(members, b + i * ld, ld, above, b, i, 0, T(-1));
    }
    scale_row<W>(members, b + i * ld, ld, inverse[i]);
  }
  members.barrier();
}

/// x (n) = u^-1 u^-T x in place, by one vector.
template <int W, class T, int Items>
void solve(group<Items>& members, const T* u, const T* inverse, std::int64_t n, std::int64_t ld, T* x) {
  members.barrier();
  for (std::int64_t k = 0; k < n; ++k) {
    const T known = x[k] * inverse[k];
    members.barrier();
    for (std::int64_t i = k + members.rank(); i < n; i += Items) x[i] = i == k ? known : x[i] - u[k * ld + i] * known;
    members.barrier();
  }
  for (std::int64_t i = n - 1; i >= 0; --i) {
    T sum(0);
    for (std::int64_t k = i + 1 + members.rank(); k < n; k += Items) sum += u[i * ld + k] * x[k];
    const T total = members.sum(pack<T, 1>(sum));
    if (members.rank() == 0) x[i] = (x[i] - total) * inverse[i];
    members.barrier();
  }
}

/// Scales the symmetric matrix a (n, n), whose upper triangle counts, to ones on its diagonal: a[i][j] *= scale[i]
/// scale[j] with scale[i] = 1 / sqrt(a[i][i]), 0 where the diagonal is not above `least`.
template <int W, class T, int Items>
void scale_to_unit_diagonal(const group<Items>& members, T* a, std::int64_t n, std::int64_t ld, T* scale, T least) {
  members.barrier();
  for (std::int64_t i = members.rank(); i < n; i += Items) {
    const T diagonal = a[i * ld + i];
    scale[i] = diagonal > least ? 1 / sycl::sqrt(diagonal) : T(0);
  }
  members.barrier();
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = i + members.rank(); j < n; j += Items) a[i * ld + j] *= scale[i] * scale[j];
  }
  members.barrier();
}

/// inverse (n, n) = scale u^-1 u^-T scale: of the matrix that was scaled and factored. `work` (n, ld) is overwritten.
template <int W, class T, int Items>
void invert(const group<Items>& members, const T* u, const T* pivots, const T* scale, std::int64_t n, std::int64_t ld,
            T* work, T* inverse) {
  fill_rows<W>(members, work, n, ld, T(0));
  fill_rows<W>(members, inverse, n, ld, T(0));
  members.barrier();
  for (std::int64_t i = members.rank(); i < n; i += Items) work[i * ld + i] = scale[i];
  solve_transposed<W>(members, u, pivots, n, ld, work);
  add_product<W>(members, inverse, n, ld, coefficients<T>{work, ld, 1}, work, n, T(1));
  members.barrier();
}

}  // namespace nullscope::kernels

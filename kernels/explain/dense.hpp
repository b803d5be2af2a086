/// Small dense matrices that one group factors and multiplies: the normal equations of one fit.
///
/// Matrices are row by row with a distance of `ld` numbers between rows, a multiple of matrix_step<W>, so that whole
/// packs can be read and written; what stands beyond the last column has no meaning.
#pragma once

#include <cstdint>
#include <sycl/sycl.hpp>

#include "kernels/linalg/row.hpp"

namespace nullscope::kernels {

/// Columns that a work-item takes at once: two registers on a CPU, so that each coefficient is used twice.
template <int W>
inline constexpr int matrix_step = W == 1 ? 1 : 2 * W;

/// Coefficient (k, r) of a product is at data[k * depth_stride + r * row_stride].
template <class T>
struct coefficients {
  const T* data;
  std::int64_t depth_stride, row_stride;
};

/// c (Rows, columns) += factor p^T q: c[r][:] += factor sum_k p(k, r) q[k][:], k from 0 to depth - 1, in the columns
/// from `first` on (rounded down to a whole step). The sums stay in registers.
template <int Rows, int W, class T, int Items>
void add_product_rows(const group<Items>& members, T* c, std::int64_t ld, const coefficients<T>& p, const T* q,
                      std::int64_t depth, std::int64_t first, T factor) {
  constexpr int step = matrix_step<W>;
  using numbers = pack<T, step>;
  for (std::int64_t column = first / step * step + members.rank() * step; column < ld; column += Items * step) {
    numbers sums[Rows];
    unrolled<Rows>([&](auto r) { sums[r] = numbers(T(0)); });
    for (std::int64_t k = 0; k < depth; ++k) {
      const numbers row = load<step>(q + k * ld + column);
      const T* const factors = p.data + k * p.depth_stride;
      unrolled<Rows>([&](auto r) { sums[r] = fma(numbers(factors[r * p.row_stride]), row, sums[r]); });
    }
    unrolled<Rows>([&](auto r) {
      T* const to = c + r * ld + column;
      store(to, fma(numbers(factor), sums[r], load<step>(to)));
    });
  }
}

inline constexpr int product_rows = 4;  // rows of c that share the rows of q

/// c (rows, columns) += factor p^T q. With `upper`, only the columns from the diagonal on have a meaning. The group's
/// work-items write columns of their own: barriers are the caller's.
template <int W, class T, int Items>
void add_product(const group<Items>& members, T* c, std::int64_t rows, std::int64_t ld, const coefficients<T>& p,
                 const T* q, std::int64_t depth, T factor, bool upper = false) {
  std::int64_t r = 0;
  const auto part = [&]<int Rows>() {
    const coefficients<T> from{p.data + r * p.row_stride, p.depth_stride, p.row_stride};
    add_product_rows<Rows, W>(members, c + r * ld, ld, from, q, depth, upper ? r : 0, factor);
  };
  for (; r + product_rows <= rows; r += product_rows) part.template operator()<product_rows>();
  for (; r < rows; ++r) part.template operator()<1>();
}

/// rows[r][:] *= factor, or += factor from[:], in the columns from `first` on.
template <int W, class T, int Items>
void scale_row(const group<Items>& members, T* to, std::int64_t ld, T factor, std::int64_t first = 0) {
  constexpr int step = matrix_step<W>;
  using numbers = pack<T, step>;
  for (std::int64_t c = first / step * step + members.rank() * step; c < ld; c += Items * step) {
    store(to + c, numbers(factor) * load<step>(to + c));
  }
}
template <int W, class T, int Items>
void add_row(const group<Items>& members, T* to, const T* from, std::int64_t ld, T factor, std::int64_t first = 0) {
  constexpr int step = matrix_step<W>;
  using numbers = pack<T, step>;
  for (std::int64_t c = first / step * step + members.rank() * step; c < ld; c += Items * step) {
    store(to + c, fma(numbers(factor), load<step>(from + c), load<step>(to + c)));
  }
}
template <int W, class T, int Items>
void fill_rows(const group<Items>& members, T* to, std::int64_t rows, std::int64_t ld, T value) {
  constexpr int step = matrix_step<W>;
  for (std::int64_t c = members.rank() * step; c < rows * ld; c += Items * step) store(to + c, pack<T, step>(value));
}

/// a (n, n) = u^T u in place: the upper triangle of a symmetric matrix with ones on its diagonal becomes u;
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

/// Small dense matrices that one group multiplies, scales and adds.
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

}  // namespace nullscope::kernels

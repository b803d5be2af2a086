/// Where the Jacobi kernel keeps a matrix and its vectors.
#pragma once

#include <cstdint>

namespace nullscope::kernels {

/// Shapes, and the places of everything in the memory of a matrix, in numbers.
struct svd_jacobi_layout {
  std::int64_t m, n;
  std::int64_t u_columns;  ///< 0: values only; n or m
  std::int64_t width;      ///< rows are padded to a multiple of this

  constexpr std::int64_t padded(std::int64_t x) const { return (x + width - 1) / width * width; }
  constexpr std::int64_t columns() const { return u_columns > n ? u_columns : n; }
  constexpr std::int64_t v() const { return columns() * padded(m); }  // after the columns of a, which become u
  constexpr std::int64_t values() const { return v() + (u_columns > 0 ? n * padded(n) : 0); }
  constexpr std::int64_t coefficients() const { return values() + padded(columns()); }
  constexpr std::int64_t row_sums() const { return coefficients() + padded(columns()); }
  constexpr std::int64_t size() const { return row_sums() + padded(m); }
};

}  // namespace nullscope::kernels

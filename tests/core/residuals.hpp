/// Errors in units of rounding, as the tests and the benchmarks measure them.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace nullscope {

/// The larger of two errors. NaN is the largest: std::max(error, NaN) would be `error`, and a wrong result would pass.
inline double worse(double a, double b) { return a > b || std::isnan(a) ? a : b; }

/// |got - expected|_F / (|expected|_F * depth * eps): of order 1 for a backward stable algorithm that adds `depth`
/// terms. Infinity if the sizes differ or anything is not finite, so that a comparison with a bound fails. `eps` is
/// that of the element type unless given (bf16 operands that were multiplied exactly: that of f32).
template <class T>
double scaled_residual(std::span<const T> got, std::span<const double> expected, double depth,
                       double eps = static_cast<double>(std::numeric_limits<T>::epsilon())) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (got.size() != expected.size()) return infinity;
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double d = static_cast<double>(got[i]) - expected[i];
    difference += d * d;
    norm += expected[i] * expected[i];
  }
  if (!std::isfinite(difference) || (norm == 0 && difference > 0)) return infinity;
  return difference == 0 ? 0 : std::sqrt(difference / norm) / (depth * eps);
}

template <class T>
double scaled_residual(const std::vector<T>& got, const std::vector<double>& expected, double depth,
                       double eps = static_cast<double>(std::numeric_limits<T>::epsilon())) {
  return scaled_residual<T>(std::span<const T>(got), std::span<const double>(expected), depth, eps);
}

/// |Q^T Q - I|_F / (columns * eps) of q (rows, columns) with any strides.
template <class T>
double orthogonality(const T* q, std::int64_t rows, std::int64_t columns, std::int64_t row_stride,
                     std::int64_t column_stride) {
  double difference = 0;
  for (std::int64_t i = 0; i < columns; ++i) {
    for (std::int64_t j = 0; j <= i; ++j) {
      double dot = i == j ? -1 : 0;
      for (std::int64_t r = 0; r < rows; ++r) {
        dot += static_cast<double>(q[r * row_stride + i * column_stride]) *
               static_cast<double>(q[r * row_stride + j * column_stride]);
      }
      difference += (i == j ? 1 : 2) * dot * dot;
    }
  }
  return std::sqrt(difference) /
         (static_cast<double>(columns) * static_cast<double>(std::numeric_limits<T>::epsilon()));
}

}  // namespace nullscope

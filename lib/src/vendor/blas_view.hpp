/// Matrices as BLAS sees them: unit stride in one direction.
#pragma once

#include <algorithm>
#include <cstdint>
#include <nullscope/core/view.hpp>
#include <optional>

namespace nullscope::detail {

/// A row-major matrix, or the transpose of one.
struct blas_matrix {
  bool is_transposed;
  std::int64_t leading_dimension;
};

/// Nothing if no direction has unit stride, or rows (columns) overlap. The stride of an extent of 1 does not matter.
template <class T>
std::optional<blas_matrix> blas_view(const view<T, 3>& x) {
  const std::int64_t rows = x.extent[1], columns = x.extent[2];
  const auto fits = [](std::int64_t slow, std::int64_t slow_stride, std::int64_t fast, std::int64_t fast_stride) {
    return (fast <= 1 || fast_stride == 1) && (slow <= 1 || slow_stride >= std::max<std::int64_t>(fast, 1));
  };
  const auto leading = [](std::int64_t slow, std::int64_t slow_stride, std::int64_t fast) {
    return slow <= 1 ? std::max<std::int64_t>(fast, 1) : slow_stride;
  };
  if (fits(rows, x.stride[1], columns, x.stride[2])) return blas_matrix{false, leading(rows, x.stride[1], columns)};
  if (fits(columns, x.stride[2], rows, x.stride[1])) return blas_matrix{true, leading(columns, x.stride[2], rows)};
  return std::nullopt;
}

/// Whether each matrix of a batch ends before the next one begins, which BLAS asks of results: they may neither
/// interleave, as heads side by side in one row do, nor share the gap after their last rows.
template <class T>
bool follow_each_other(const view<T, 3>& x, const blas_matrix& matrix) {
  const std::int64_t slow_extent = x.extent[matrix.is_transposed ? 2 : 1];
  return x.extent[0] <= 1 || x.stride[0] >= matrix.leading_dimension * slow_extent;
}

}  // namespace nullscope::detail

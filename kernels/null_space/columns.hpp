/// Sets columns of batched matrices to zero, or moves them, according to a rank that only the device knows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <nullscope/core/view.hpp>
#include <sycl/sycl.hpp>

namespace nullscope::kernels {

/// x (B,m,k): columns from rank[b] on become zero, so that products with x see only the first rank[b]. A
/// negative rank means that it is not known: all of x becomes NaN, and so does what is computed from it. One work-item
/// per row.
template <class T>
struct keep_first_columns {
  static constexpr const char* source = __FILE__;

  view<T, 3> x;
  view<const std::int64_t, 1> rank;

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    const std::int64_t row = static_cast<std::int64_t>(item.get_global_linear_id());
    if (row >= x.extent[0] * x.extent[1]) return;
    const std::int64_t matrix = row / x.extent[1], kept = rank(matrix);
    const T other = kept < 0 ? std::numeric_limits<T>::quiet_NaN() : T(0);
    for (std::int64_t j = kept < 0 ? 0 : kept; j < x.extent[2]; ++j) x(matrix, row % x.extent[1], j) = other;
  }
};

/// to (B,m,n), from (B,m,k), k <= n: the last k columns of `to` become those of `from` after its first rank[b],
/// followed by zeros. If the rank is negative (not known), all of `to` becomes NaN. One work-item per row.
template <class T>
struct append_last_columns {
  static constexpr const char* source = __FILE__;

  view<const T, 3> from;
  view<T, 3> to;
  view<const std::int64_t, 1> rank;

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    const std::int64_t row = static_cast<std::int64_t>(item.get_global_linear_id());
    if (row >= to.extent[0] * to.extent[1]) return;
    const std::int64_t matrix = row / to.extent[1], i = row % to.extent[1];
    const std::int64_t skipped = rank(matrix), columns = from.extent[2], first = to.extent[2] - columns;
    if (skipped < 0) {
      for (std::int64_t j = 0; j < to.extent[2]; ++j) to(matrix, i, j) = std::numeric_limits<T>::quiet_NaN();
      return;
    }
    for (std::int64_t j = 0; j < columns; ++j) {
      to(matrix, i, first + j) = skipped + j < columns ? from(matrix, i, skipped + j) : T(0);
    }
  }
};

/// The ranges of matrices (B) without elements: rank 0, status 0 (converged). One work-item per matrix.
struct no_columns {
  static constexpr const char* source = __FILE__;

  view<std::int64_t, 1> rank;
  view<std::int32_t, 1> status;

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    const std::int64_t matrix = static_cast<std::int64_t>(item.get_global_linear_id());
    if (matrix >= rank.extent[0]) return;
    rank(matrix) = 0;
    status(matrix) = 0;
  }
};

}  // namespace nullscope::kernels

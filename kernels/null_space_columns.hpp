/// Columns of batched matrices that are set to zero, or moved, by a rank that only the device knows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nullscope/view.hpp>
#include <sycl/sycl.hpp>

namespace nullscope::kernels {

/// x (B,m,k): columns from rank[b] on become zero, so that products with x see only the first rank[b]. A negative rank
/// (NaN in the matrix, or values that overflow) leaves everything as it is. One work-item a row.
template <class T>
struct keep_first_columns {
  static constexpr const char* source = "null_space_columns.hpp";
  static constexpr int dimensions = 1;

  view<T, 3> x;
  view<const std::int64_t, 1> rank;

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    const std::int64_t row = static_cast<std::int64_t>(item.get_global_id(0));
    if (row >= x.extent[0] * x.extent[1]) return;
    const std::int64_t matrix = row / x.extent[1], kept = rank(matrix);
    if (kept < 0) return;
    for (std::int64_t j = kept; j < x.extent[2]; ++j) x(matrix, row % x.extent[1], j) = 0;
  }
};

/// to (B,m,k): column j = column rank[b] + j of from (B,m,k), zero from column k - rank[b] on. One work-item a row.
template <class T>
struct last_columns {
  static constexpr const char* source = "null_space_columns.hpp";
  static constexpr int dimensions = 1;

  view<const T, 3> from;
  view<T, 3> to;
  view<const std::int64_t, 1> rank;

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    const std::int64_t row = static_cast<std::int64_t>(item.get_global_id(0));
    if (row >= to.extent[0] * to.extent[1]) return;
    const std::int64_t matrix = row / to.extent[1], i = row % to.extent[1];
    const std::int64_t skipped = rank(matrix) < 0 ? 0 : rank(matrix);
    for (std::int64_t j = 0; j < to.extent[2]; ++j) {
      to(matrix, i, j) = skipped + j < from.extent[2] ? from(matrix, i, skipped + j) : T(0);
    }
  }
};

/// to (B,m,n) = from, whatever the strides. One work-item a row.
template <class T>
struct copy_rows {
  static constexpr const char* source = "null_space_columns.hpp";
  static constexpr int dimensions = 1;

  view<const T, 3> from;
  view<T, 3> to;

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    const std::int64_t row = static_cast<std::int64_t>(item.get_global_id(0));
    if (row >= to.extent[0] * to.extent[1]) return;
    const std::int64_t matrix = row / to.extent[1], i = row % to.extent[1];
    for (std::int64_t j = 0; j < to.extent[2]; ++j) to(matrix, i, j) = from(matrix, i, j);
  }
};

}  // namespace nullscope::kernels

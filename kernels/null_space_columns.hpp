/// Columns of batched matrices that are set to zero, or moved, by a rank that only the device knows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <nullscope/view.hpp>
#include <sycl/sycl.hpp>

namespace nullscope::kernels {

/// x (B,m,k): columns from rank[b] on become zero, so that products with x see only the first rank[b]. Where the rank
/// is not known (it is negative) all of x becomes NaN, as will everything that is made with it. One work-item a row.
template <class T>
struct keep_first_columns {
  static constexpr const char* source = "null_space_columns.hpp";
  static constexpr int dimensions = 1;

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

/// to (B,m,n), n >= k: columns after the first n - k are those of from (B,m,k) that come after the first rank[b], then
/// zeros. Where the rank is not known (it is negative) all of `to` becomes NaN. One work-item a row.
template <class T>
struct append_last_columns {
  static constexpr const char* source = "null_space_columns.hpp";
  static constexpr int dimensions = 1;

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

/// to (B,m,n) = from, whatever the strides. One work-item a row.
template <class T>
struct copy_rows {
  static constexpr const char* source = "null_space_columns.hpp";
  static constexpr int dimensions = 1;

  view<const T, 3> from;
  view<T, 3> to;

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    const std::int64_t row = static_cast<std::int64_t>(item.get_global_linear_id());
    if (row >= to.extent[0] * to.extent[1]) return;
    const std::int64_t matrix = row / to.extent[1], i = row % to.extent[1];
    for (std::int64_t j = 0; j < to.extent[2]; ++j) to(matrix, i, j) = from(matrix, i, j);
  }
};

}  // namespace nullscope::kernels

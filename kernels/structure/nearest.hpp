/// Which column of a matrix is the smallest, row by row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nullscope/core/view.hpp>
#include <sycl/sycl.hpp>

namespace nullscope::kernels {

/// nearest (rows) = the column j with the smallest offset_j + x_ij, the first of equals; NaN is never the smallest. x
/// is (rows, columns) with at least one column. One work-item per row.
template <class T>
struct nearest_column {
  static constexpr const char* source = __FILE__;

  view<const T, 2> x;
  view<const T, 1> offset;
  view<std::int32_t, 1> nearest;

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    const std::int64_t row = static_cast<std::int64_t>(item.get_global_linear_id());
    if (row >= x.extent[0]) return;
    std::int64_t best = 0;
    T smallest = offset(0) + x(row, 0);
    for (std::int64_t j = 1; j < x.extent[1]; ++j) {
      const T value = offset(j) + x(row, j);
      if (value < smallest || smallest != smallest) {
        smallest = value;
        best = j;
      }
    }
    nearest(row) = static_cast<std::int32_t>(best);
  }
};

}  // namespace nullscope::kernels

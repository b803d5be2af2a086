/// Brings decompositions from memory that a library has written to their places.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nullscope/core/view.hpp>
#include <sycl/sycl.hpp>

namespace nullscope::kernels {

/// One work-item per row of u and of vt, and one per matrix for s, status and sweeps.
template <class T>
struct svd_unstage {
  static constexpr const char* source = __FILE__;

  view<const T, 2> from_s;                  ///< (batch, n)
  view<const T, 3> from_u, from_vt;         ///< (batch, m, u_columns) and (batch, n, n), or absent
  view<const std::int32_t, 1> from_status;  ///< (batch)
  view<T, 2> s;
  view<T, 3> u, vt;
  view<std::int32_t, 1> status, sweeps;  ///< sweeps becomes 0, or is absent

  /// Work-items per matrix.
  constexpr std::int64_t rows() const { return from_u.extent[1] + from_vt.extent[1] + 1; }

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    const auto id = static_cast<std::int64_t>(item.get_global_linear_id());
    const std::int64_t b = id / rows(), row = id % rows(), u_rows = from_u.extent[1];
    if (row < u_rows) {
      copy_row(select(select(from_u, 0, b), 0, row), select(select(u, 0, b), 0, row));
    } else if (row + 1 < rows()) {
      copy_row(select(select(from_vt, 0, b), 0, row - u_rows), select(select(vt, 0, b), 0, row - u_rows));
    } else {
      copy_row(select(from_s, 0, b), select(s, 0, b));
      status(b) = from_status(b);
      if (sweeps.data != nullptr) sweeps(b) = 0;
    }
  }

 private:
  static void copy_row(const view<const T, 1>& from, const view<T, 1>& to) {
    const std::int64_t count = from.extent[0];
    if (to.stride[0] == 1 && from.stride[0] == 1) {
      for (std::int64_t i = 0; i < count; ++i) to.data[i] = from.data[i];
    } else {
      for (std::int64_t i = 0; i < count; ++i) to(i) = from(i);
    }
  }
};

}  // namespace nullscope::kernels

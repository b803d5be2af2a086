/// What stands around the decomposition of a vendor's library on a GPU: matrices go there column by column and without
/// NaN or infinity, on which such libraries may not end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <nullscope/core/view.hpp>
#include <sycl/sycl.hpp>

namespace nullscope::kernels {

/// to = a, both (batch, m, n). One work-item per row. not_finite (batch), zero before, becomes 1 for a matrix that
/// holds NaN or infinity.
template <class T>
struct svd_stage {
  static constexpr const char* source = __FILE__;

  view<const T, 3> a;
  view<T, 3> to;
  view<std::int32_t, 1> not_finite;

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    const auto id = static_cast<std::int64_t>(item.get_global_linear_id());
    const std::int64_t b = id / a.extent[1], row = id % a.extent[1];
    if (b >= a.extent[0]) return;
    bool is_finite = true;
    for (std::int64_t j = 0; j < a.extent[2]; ++j) {
      const T x = a(b, row, j);
      is_finite &= static_cast<bool>(sycl::isfinite(x));
      to(b, row, j) = x;
    }
    if (is_finite) return;
    sycl::atomic_ref<std::int32_t, sycl::memory_order::relaxed, sycl::memory_scope::device>(not_finite(b)).store(1);
  }
};

/// Makes the matrices (batch, m, n) that are not finite zero. One work-item per row.
template <class T>
struct svd_blank {
  static constexpr const char* source = __FILE__;

  view<const std::int32_t, 1> not_finite;
  view<T, 3> a;

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    const auto id = static_cast<std::int64_t>(item.get_global_linear_id());
    const std::int64_t b = id / a.extent[1], row = id % a.extent[1];
    if (b >= a.extent[0] || not_finite(b) == 0) return;
    for (std::int64_t j = 0; j < a.extent[2]; ++j) a(b, row, j) = 0;
  }
};

/// info (batch) of the library becomes the status: 0 converged, 1 not converged, 2 not finite. Results of matrices that
/// are not finite become NaN. One work-item per row of u (batch, m, columns) and vt (batch, n, n), and one for s
/// (batch, n).
template <class T>
struct svd_judge {
  static constexpr const char* source = __FILE__;

  view<const std::int32_t, 1> not_finite;
  view<std::int32_t, 1> info;
  view<T, 2> s;
  view<T, 3> u, vt;

  /// Work-items per matrix.
  constexpr std::int64_t rows() const { return u.extent[1] + vt.extent[1] + 1; }

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    const auto id = static_cast<std::int64_t>(item.get_global_linear_id());
    const std::int64_t b = id / rows(), row = id % rows(), u_rows = u.extent[1];
    if (b >= s.extent[0]) return;
    const bool is_finite = not_finite(b) == 0;
    if (row + 1 == rows()) info(b) = is_finite ? static_cast<std::int32_t>(info(b) != 0) : 2;
    if (is_finite) return;
    constexpr T nan = std::numeric_limits<T>::quiet_NaN();
    if (row < u_rows) {
      for (std::int64_t j = 0; j < u.extent[2]; ++j) u(b, row, j) = nan;
    } else if (row + 1 < rows()) {
      for (std::int64_t j = 0; j < vt.extent[2]; ++j) vt(b, row - u_rows, j) = nan;
    } else {
      for (std::int64_t j = 0; j < s.extent[1]; ++j) s(b, j) = nan;
    }
  }
};

}  // namespace nullscope::kernels

/// Cholesky factors of a batch of matrices, one group per matrix.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <nullscope/core/view.hpp>
#include <sycl/sycl.hpp>

#include "kernels/linalg/cholesky.hpp"

namespace nullscope::kernels {

/// What `batch_cholesky` reports for a matrix: the values of the public cholesky_status.
enum cholesky_outcome : std::int32_t { is_factored, is_not_positive_definite, is_not_finite };

/// a = l l^T for symmetric a (batch, n, n), of which the lower triangle is read; l may be a. Rows and columns are first
/// scaled by powers of two to a diagonal near 1.
template <class T, int W, int Items>
struct batch_cholesky {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;

  view<const T, 3> a;
  view<T, 3> l;
  view<std::int32_t, 1> status;  // (batch)
  T* memory;                     // (batch, n + 2, ld): l^T, scales, inverse pivots
  std::int64_t ld;

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    group<Items> members(item, local);
    const std::int64_t b = members.number(), n = a.extent[1];
    T* const u = memory + b * (n + 2) * ld;
    T* const scale = u + n * ld;
    T* const inverse = scale + ld;
    fill_rows<W>(members, u, n + 2, ld, T(0));
    members.barrier();
    const bool finite = load_scaled(members, b, u, scale);
    cholesky<W>(members, u, n, ld, inverse, T(0));
    T lost(0);
    for (std::int64_t i = members.rank(); i < n; i += Items) lost += inverse[i] > T(0) ? T(0) : T(1);
    const bool definite = members.sum(lost) == T(0);
    store(members, b, u, scale, finite && definite);
    if (members.rank() == 0) status(b) = !finite ? is_not_finite : !definite ? is_not_positive_definite : is_factored;
  }

 private:
  /// u[i][j] = scale[i] scale[j] a(j, i) for j >= i. Returns whether all of it is finite.
  bool load_scaled(group<Items>& members, std::int64_t b, T* u, T* scale) const {
    const std::int64_t n = a.extent[1];
    for (std::int64_t i = members.rank(); i < n; i += Items) {
      const T diagonal = a(b, i, i);
      const bool has_scale = diagonal > T(0) && diagonal <= std::numeric_limits<T>::max();
      scale[i] = has_scale ? sycl::ldexp(T(1), -sycl::ilogb(diagonal) / 2) : T(1);
    }
    members.barrier();
    T bad(0);
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = i + members.rank(); j < n; j += Items) {
        const T x = a(b, j, i);
        if (!(sycl::fabs(x) <= std::numeric_limits<T>::max())) bad += T(1);
        u[i * ld + j] = x * scale[i] * scale[j];
      }
    }
    return members.sum(bad) == T(0);
  }

  /// l(i, j) = u[j][i] / scale[i], and zeros above the diagonal; NaN without a factor.
  void store(const group<Items>& members, std::int64_t b, const T* u, const T* scale, bool has_factor) const {
    const std::int64_t n = a.extent[1];
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = members.rank(); j < n; j += Items) {
        const T x = j <= i ? u[j * ld + i] / scale[i] : T(0);
        l(b, i, j) = has_factor ? x : std::numeric_limits<T>::quiet_NaN();
      }
    }
  }
};

}  // namespace nullscope::kernels

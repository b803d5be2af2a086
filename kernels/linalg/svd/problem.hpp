/// What the SVD kernels share: operands and results, how a matrix is scaled, and what counts as zero.
#pragma once

#include <cstdint>
#include <limits>
#include <nullscope/core/view.hpp>
#include <sycl/sycl.hpp>

namespace nullscope::kernels {

/// A batch of matrices and where their decompositions go. m >= n >= 1: a wide matrix comes as its transpose, with u and
/// v exchanged.
template <class T>
struct svd_problem {
  view<const T, 3> a;            ///< (batch, m, n)
  view<T, 2> s;                  ///< (batch, n)
  view<T, 3> u;                  ///< (batch, m, u_columns)
  view<T, 3> v;                  ///< (batch, n, n), if u_columns > 0
  view<std::int32_t, 1> status;  ///< (batch), the values of svd_status
  view<std::int32_t, 1> sweeps;  ///< (batch), or absent
  std::int64_t u_columns;        ///< 0: values only; n; m
  std::int64_t max_sweeps;

  constexpr std::int64_t batch() const { return a.extent[0]; }
  constexpr std::int64_t m() const { return a.extent[1]; }
  constexpr std::int64_t n() const { return a.extent[2]; }

  /// 0: converged, 1: not within max_sweeps, 2: not finite.
  void report(std::int64_t b, std::int32_t outcome, std::int64_t count) const {
    status(b) = outcome;
    if (sweeps.data != nullptr) sweeps(b) = static_cast<std::int32_t>(count);
  }
};

/// Sums of squares below this count as zero: their relative error is no longer small. Matrices are scaled so that their
/// largest entry is near one, so what is dropped is far below its rounding error.
template <class T>
constexpr T negligible_square = sizeof(T) == 8 ? T(1e-280) : T(1e-30);

/// The power of two that brings the largest entry of a matrix near one; 1 for a zero matrix.
template <class T>
T scale_to_one(T largest_entry) {
  constexpr int limit = std::numeric_limits<T>::max_exponent - 2;
  const int exponent = largest_entry > T(0) ? -sycl::ilogb(largest_entry) : 0;
  return sycl::ldexp(T(1), exponent > limit ? limit : exponent < -limit ? -limit : exponent);
}

}  // namespace nullscope::kernels

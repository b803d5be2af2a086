/// Batched Cholesky factorisation of symmetric positive definite matrices, and solutions with the factors.
///
///   a = l l^T     a (batch, n, n), l lower triangular with a positive diagonal; zeros are written above it
///   a x = b       b and x (batch, n, k)
///
///   cholesky(ctx, a, {.l = l, .status = status});
///   cholesky_solve(ctx, {.l = l, .b = b}, x);
///
/// Only the lower triangle of a is read. Rows and columns are scaled by powers of two on the way, so diagonals of any
/// size are safe. A matrix that is not positive definite, or not finite, gets NaN as its l; the others are not
/// affected. n^3 / 3 flops per matrix, 2 n^2 k to solve; one work-group per matrix. Workspace: about twice a.
///
/// l may be a itself, and x may be b (same memory, same strides). No other overlap is allowed.
#pragma once

#include <cstdint>
#include <nullscope/core/context.hpp>
#include <nullscope/core/operation.hpp>
#include <nullscope/core/view.hpp>
#include <sycl/sycl.hpp>

namespace nullscope {

/// The outcome for one matrix of a batch.
enum cholesky_status : std::int32_t {
  cholesky_factored = 0,
  cholesky_not_positive_definite = 1,  ///< a pivot is not above 0
  cholesky_not_finite = 2              ///< the lower triangle of a contains NaN or infinity
};

template <class Number>
struct cholesky_results {
  view<Number, 3> l;             ///< (batch, n, n)
  view<std::int32_t, 1> status;  ///< (batch), cholesky_status
};

/// Factors every matrix of a (batch, n, n). Throws invalid_argument (shapes, strides, null pointers) or
/// unsupported_device (double on a device without it).
sycl::event cholesky(context& ctx, view<const float, 3> a, const cholesky_results<float>& results,
                     const events& dependencies = {});
sycl::event cholesky(context& ctx, view<const double, 3> a, const cholesky_results<double>& results,
                     const events& dependencies = {});

template <class Number>
struct cholesky_system {
  view<const Number, 3> l;  ///< (batch, n, n), of which the lower triangle is read
  view<const Number, 3> b;  ///< (batch, n, k)
};

/// x (batch, n, k) = l^-T l^-1 b. Throws like `cholesky`.
sycl::event cholesky_solve(context& ctx, const cholesky_system<float>& system, view<float, 3> x,
                           const events& dependencies = {});
sycl::event cholesky_solve(context& ctx, const cholesky_system<double>& system, view<double, 3> x,
                           const events& dependencies = {});

}  // namespace nullscope

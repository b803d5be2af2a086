/// Batched QR factorisation of many small matrices, of a few tall ones, and of anything in between.
///
///   a = q r       for each matrix of a (batch, m, n), with k = min(m, n)
///   q (batch, m, k)  orthonormal columns, q^T q = I, whatever the rank of a
///   r (batch, k, n)  upper triangular; zeros are written below its diagonal, whose signs are arbitrary
///
///   qr(ctx, a, {.q = q, .r = r});
///   qr(ctx, a, {.r = r});             // only r, in half the time
///
/// Householder reflectors throughout: 2 m n^2 flops for r and as many for q (m >= n). If the batch is small, the rows
/// of a tall matrix are split over work-groups as a tree (TSQR). Workspace: of the order of a, or less if the batch is
/// large.
///
/// Columns are scaled by powers of two on the way, so entries near 1e30 or 1e-30, zero columns and columns of very
/// different lengths are safe. NaN or infinity in a matrix gives NaN or infinity in its r, and a q without meaning; the
/// other matrices are not affected.
///
/// q may be a itself (same memory, same strides). No other overlap of results and operands is allowed.
#pragma once

#include <nullscope/core/context.hpp>
#include <nullscope/core/operation.hpp>
#include <nullscope/core/view.hpp>
#include <sycl/sycl.hpp>

namespace nullscope {

template <class Number>
struct qr_results {
  view<Number, 3> q = {};  ///< (batch, m, k); optional
  view<Number, 3> r;       ///< (batch, k, n)
};

/// Factors every matrix of a (batch, m, n). Empty matrices are allowed and leave nothing to do.
/// Throws invalid_argument (shapes, strides, null pointers) or unsupported_device (double on a device without it).
sycl::event qr(context& ctx, view<const float, 3> a, const qr_results<float>& results, const events& dependencies = {});
sycl::event qr(context& ctx, view<const double, 3> a, const qr_results<double>& results,
               const events& dependencies = {});

// Linear least squares for each problem of a batch, by Householder QR.
//
//   minimise |a x - b|_F      a (batch, m, n), b (batch, m, k) -> x (batch, n, k)
//
//   least_squares(ctx, {a, b}, x);
//
// Any m: with dependent columns, or fewer rows than columns, x is close to the smallest of all minimisers. For that,
// t I is appended to a, where t^2 is eps times the mean squared singular value of a. This changes x by a share of
// about eps kappa^2, with kappa the condition of a: no more than rounding does where the residual is not small. Rows
// of zeros change nothing, so problems of different length share a batch.
//
// Cost: 4 (m + n) n^2 + 2 m n k + n^2 k flops per problem; workspace: about twice a. NaN or infinity in a problem
// gives NaN in its x, and in no other. x must not overlap a or b. Throws invalid_argument (shapes, strides, null
// pointers, a without columns) and unsupported_device (double without fp64).

template <class T>
struct least_squares_operands {
  view<const T, 3> a;  ///< (batch, m, n)
  view<const T, 3> b;  ///< (batch, m, k)
};

sycl::event least_squares(context& ctx, const least_squares_operands<float>& operands, view<float, 3> x,
                          const events& dependencies = {});
sycl::event least_squares(context& ctx, const least_squares_operands<double>& operands, view<double, 3> x,
                          const events& dependencies = {});

}  // namespace nullscope

/// Linear least squares for each problem of a batch, by Householder QR.
///
///   minimise |a x - b|_F      a (batch, m, n), b (batch, m, k) -> x (batch, n, k)
///
///   least_squares(ctx, {a, b}, x);
///
/// Any m: with dependent columns, or fewer rows than columns, x is close to the smallest of all minimisers. For that,
/// t I is appended to a, where t^2 is eps times the mean squared singular value of a. This changes x by a share of
/// about eps kappa^2, with kappa the condition of a: no more than rounding does where the residual is not small. Rows
/// of zeros change nothing, so problems of different length share a batch.
///
/// Cost: 4 (m + n) n^2 + 2 m n k + n^2 k flops per problem; workspace: about twice a. NaN or infinity in a problem
/// gives NaN in its x, and in no other. x must not overlap a or b. Throws invalid_argument (shapes, strides, null
/// pointers, a without columns) and unsupported_device (double without fp64).
#pragma once

#include <nullscope/context.hpp>
#include <nullscope/operation.hpp>
#include <nullscope/view.hpp>
#include <sycl/sycl.hpp>

namespace nullscope {

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

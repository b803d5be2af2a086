/// Element-by-element operations: sums, products, activations, copies, conversions, transposes.
///
/// Views are (batch, rows, columns) with any strides; a vector or a matrix converts to one. All operands of a call have
/// the same shape. Inputs may have stride 0 to repeat a row or a matrix: to add a bias, call `axpby` with a y of
/// strides (0, 0, 1). `out` may be one of the inputs (the same view); any other overlap is undefined. No workspace is
/// used.
///
/// Throws invalid_argument (shapes, strides, null pointers) and unsupported_device (double without fp64).
#pragma once

#include <nullscope/bfloat16.hpp>
#include <nullscope/context.hpp>
#include <nullscope/operation.hpp>
#include <nullscope/view.hpp>
#include <sycl/sycl.hpp>

namespace nullscope {

/// Two inputs of the same shape.
template <class T>
struct two_operands {
  view<const T, 3> x, y;
};

/// out = alpha x.
sycl::event scale(context& ctx, view<const float, 3> x, view<float, 3> out, float alpha,
                  const events& dependencies = {});
sycl::event scale(context& ctx, view<const double, 3> x, view<double, 3> out, double alpha,
                  const events& dependencies = {});

struct axpby_options {
  double alpha = 1, beta = 1;
};

/// out = alpha x + beta y. A factor of 0 is not special: 0 times NaN is NaN.
sycl::event axpby(context& ctx, const two_operands<float>& operands, view<float, 3> out,
                  const axpby_options& options = {}, const events& dependencies = {});
sycl::event axpby(context& ctx, const two_operands<double>& operands, view<double, 3> out,
                  const axpby_options& options = {}, const events& dependencies = {});

/// out = x y, element by element.
sycl::event multiply(context& ctx, const two_operands<float>& operands, view<float, 3> out,
                     const events& dependencies = {});
sycl::event multiply(context& ctx, const two_operands<double>& operands, view<double, 3> out,
                     const events& dependencies = {});

/// Functions of one number. NaN gives NaN; infinities give the limit.
enum class unary_function {
  exp,        ///< within 1.4 units in the last place; underflow is gradual
  relu,       ///< max(x, 0)
  gelu,       ///< x (1 + erf(x / sqrt(2))) / 2, within 8 eps of the result (double: 16), in both tails too
  gelu_tanh,  ///< x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
};

/// out = function(x).
sycl::event apply(context& ctx, view<const float, 3> x, view<float, 3> out, unary_function function,
                  const events& dependencies = {});
sycl::event apply(context& ctx, view<const double, 3> x, view<double, 3> out, unary_function function,
                  const events& dependencies = {});

/// out = x, converted to the type of out and rounded to nearest. Fast where the last stride of both is 1, and where one
/// of them is transposed; correct for any strides.
sycl::event copy(context& ctx, view<const float, 3> x, view<float, 3> out, const events& dependencies = {});
sycl::event copy(context& ctx, view<const float, 3> x, view<double, 3> out, const events& dependencies = {});
sycl::event copy(context& ctx, view<const float, 3> x, view<bfloat16, 3> out, const events& dependencies = {});
sycl::event copy(context& ctx, view<const double, 3> x, view<double, 3> out, const events& dependencies = {});
sycl::event copy(context& ctx, view<const double, 3> x, view<float, 3> out, const events& dependencies = {});
sycl::event copy(context& ctx, view<const bfloat16, 3> x, view<bfloat16, 3> out, const events& dependencies = {});
sycl::event copy(context& ctx, view<const bfloat16, 3> x, view<float, 3> out, const events& dependencies = {});

/// out (batch, columns, rows) = the transpose of x (batch, rows, columns), converted as by `copy`. Out of place.
sycl::event transpose(context& ctx, view<const float, 3> x, view<float, 3> out, const events& dependencies = {});
sycl::event transpose(context& ctx, view<const float, 3> x, view<double, 3> out, const events& dependencies = {});
sycl::event transpose(context& ctx, view<const float, 3> x, view<bfloat16, 3> out, const events& dependencies = {});
sycl::event transpose(context& ctx, view<const double, 3> x, view<double, 3> out, const events& dependencies = {});
sycl::event transpose(context& ctx, view<const double, 3> x, view<float, 3> out, const events& dependencies = {});
sycl::event transpose(context& ctx, view<const bfloat16, 3> x, view<bfloat16, 3> out, const events& dependencies = {});
sycl::event transpose(context& ctx, view<const bfloat16, 3> x, view<float, 3> out, const events& dependencies = {});

}  // namespace nullscope

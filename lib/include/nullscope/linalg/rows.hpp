/// Operations along the rows of matrices: softmax, layer normalisation, reductions.
///
/// Matrices are (batch, rows, columns) with any strides, and results with one number per row are (batch, rows); a
/// single matrix and a vector convert to them. Neighbouring columns (last stride 1) are the fast case. To reduce
/// columns, pass `transposed(x)`. Rows may have any length. No workspace is used.
///
/// Throws invalid_argument (shapes, strides, null pointers) and unsupported_device (double without fp64).
#pragma once

#include <nullscope/core/bfloat16.hpp>
#include <nullscope/core/context.hpp>
#include <nullscope/core/operation.hpp>
#include <nullscope/core/view.hpp>
#include <sycl/sycl.hpp>

namespace nullscope {

template <class T>
struct softmax_results {
  view<T, 3> y;                 ///< (batch, rows, columns); may be x
  view<T, 2> log_sum_exp = {};  ///< optional, (batch, rows): m + log(sum_k exp(x_k - m))
};

/// y = softmax(x) along each row: y_j = exp(x_j - m) / sum_k exp(x_k - m) with m the largest element of the row.
/// A row of -inf (all masked) gives zeros, and -inf as its log_sum_exp. NaN or +inf makes its own row NaN, no other.
sycl::event softmax(context& ctx, view<const float, 3> x, const softmax_results<float>& results,
                    const events& dependencies = {});
sycl::event softmax(context& ctx, view<const double, 3> x, const softmax_results<double>& results,
                    const events& dependencies = {});

template <class T>
struct layer_norm_operands {
  view<const T, 3> x;           ///< (batch, rows, columns)
  view<const T, 1> gamma = {};  ///< (columns), weights; default: ones
  view<const T, 1> beta = {};   ///< (columns), offsets; default: zeros
};

template <class T>
struct layer_norm_results {
  view<T, 3> y;                       ///< (batch, rows, columns); may be x
  view<T, 2> mean = {};               ///< optional, (batch, rows): mean of each row
  view<T, 2> inverse_deviation = {};  ///< optional, (batch, rows): 1 / sqrt(variance + epsilon)
};

struct layer_norm_options {
  double epsilon = 1e-5;  ///< added to the variance; must not be negative
};

/// y = (x - mean) / sqrt(variance + epsilon) * gamma + beta along each row, where the variance is the mean squared
/// deviation. A large offset costs no accuracy. NaN, infinity, or squares that overflow make their own row NaN, no
/// other.
sycl::event layer_norm(context& ctx, const layer_norm_operands<float>& operands,
                       const layer_norm_results<float>& results, const layer_norm_options& options = {},
                       const events& dependencies = {});
sycl::event layer_norm(context& ctx, const layer_norm_operands<double>& operands,
                       const layer_norm_results<double>& results, const layer_norm_options& options = {},
                       const events& dependencies = {});

/// What row_reduce computes from a row. NaN makes the result of its own row NaN, no other.
enum class row_reduction {
  sum,             ///< of no columns: 0
  maximum,         ///< of no columns: -inf
  sum_of_squares,  ///< overflows where the squares do
  norm,            ///< the Euclidean norm, correct wherever it can be represented
};

/// out (batch, rows) = reduction of x (batch, rows, columns) along each row. Down the columns, with `transposed(x)`, it
/// is as fast, except for `norm`.
sycl::event row_reduce(context& ctx, view<const float, 3> x, view<float, 2> out, row_reduction reduction,
                       const events& dependencies = {});
sycl::event row_reduce(context& ctx, view<const double, 3> x, view<double, 2> out, row_reduction reduction,
                       const events& dependencies = {});

// Element-by-element operations: sums, products, activations, copies, conversions, transposes.
//
// Views are (batch, rows, columns) with any strides; a vector or a matrix converts to one. All operands of a call have
// the same shape. Inputs may have stride 0 to repeat a row or a matrix: to add a bias, call `axpby` with a y of
// strides (0, 0, 1). `out` may be one of the inputs (the same view); any other overlap is undefined. No workspace is
// used.
//
// Throws invalid_argument (shapes, strides, null pointers) and unsupported_device (double without fp64).

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

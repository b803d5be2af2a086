/// Operations along the rows of matrices: softmax, layer normalisation, reductions.
///
/// Matrices are (batch, rows, columns) with any strides, and results with one number per row are (batch, rows); a
/// single matrix and a vector convert to them. Neighbouring columns (last stride 1) are the fast case. To reduce
/// columns, pass `transposed(x)`. Rows may have any length. No workspace is used.
///
/// Throws invalid_argument (shapes, strides, null pointers) and unsupported_device (double without fp64).
#pragma once

#include <nullscope/context.hpp>
#include <nullscope/operation.hpp>
#include <nullscope/view.hpp>
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

}  // namespace nullscope

/// Operations along the rows of a matrix, or of a batch of matrices: softmax, layer normalisation, reductions.
///
/// Views are (rows, columns) or (batch, rows, columns) with any strides; neighbouring columns (last stride 1) are the
/// fast case. Results that are one number a row are (rows) or (batch, rows). To reduce columns, pass `transposed(x)`:
/// that is fast too for the reductions. Rows of any length stream through the cache; no scratchpad is needed.
///
/// T is float or double, the type of the results. Every function returns at once with an event, and throws
/// invalid_argument (shapes, strides, null pointers) or unsupported_device (double without fp64) before anything is
/// launched. Deterministic: the same input on the same device gives the same bits.
#pragma once

#include <cstdint>
#include <nullscope/view.hpp>
#include <sycl/sycl.hpp>
#include <type_traits>
#include <vector>

namespace nullscope {

/// y = softmax(x) along each row: y_j = exp(x_j - m) / sum_k exp(x_k - m) with m the largest of the row.
///   x, y         (..., rows, columns); y may be x
///   log_sum_exp  (..., rows): m + log(sum_k exp(x_k - m)); left out if it has no data
/// A row of -inf (all masked) gives zeros, and -inf for its log_sum_exp. NaN or +inf makes its own row NaN, no other.
template <class T, int Rank>
sycl::event softmax(sycl::queue& queue, std::type_identity_t<view<const T, Rank>> x, view<T, Rank> y,
                    std::type_identity_t<view<T, Rank - 1>> log_sum_exp = {},
                    const std::vector<sycl::event>& dependencies = {});

/// What layer_norm takes beside its matrices. Views without data are left out.
template <class T, int Rank>
struct layer_norm_options {
  view<const T, 1> gamma = {};               ///< (columns), weights; left out: ones
  view<const T, 1> beta = {};                ///< (columns), offsets; left out: zeros
  T epsilon = T(1e-5);                       ///< added to the variance
  view<T, Rank - 1> mean = {};               ///< out (..., rows): mean of each row
  view<T, Rank - 1> inverse_deviation = {};  ///< out (..., rows): 1 / sqrt(variance + epsilon), for the backward pass
};

/// y = (x - mean) / sqrt(variance + epsilon) * gamma + beta along each row, the variance being the mean squared
/// deviation.
///   x, y  (..., rows, columns); y may be x
/// A large offset costs no accuracy. NaN, infinity, or squares that overflow make their own row NaN, no other.
template <class T, int Rank>
sycl::event layer_norm(sycl::queue& queue, std::type_identity_t<view<const T, Rank>> x, view<T, Rank> y,
                       const std::type_identity_t<layer_norm_options<T, Rank>>& options = {},
                       const std::vector<sycl::event>& dependencies = {});

/// What row_reduce makes of a row. NaN makes its own row NaN, no other.
enum class row_reduction {
  sum,             ///< of no columns: 0
  maximum,         ///< of no columns: -inf
  sum_of_squares,  ///< overflows where the squares do
  norm,            ///< the Euclidean norm, right wherever it can be represented
};

/// out = reduction of x along each row. To go down the columns, pass `transposed(x)`; that is as fast, but for `norm`.
///   x    (..., rows, columns)
///   out  (..., rows)
template <class T, int RowsRank>
sycl::event row_reduce(sycl::queue& queue, row_reduction reduction, std::type_identity_t<view<const T, RowsRank + 1>> x,
                       view<T, RowsRank> out, const std::vector<sycl::event>& dependencies = {});

}  // namespace nullscope

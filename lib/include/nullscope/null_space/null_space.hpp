/// Rank, range and left null space of T (S x d) for batches of heads, without an SVD of T and without an S x S
/// projector.
///
/// For an attention head T = V H, with V (S x d_v) its values and H (d_v x d) its rows of the output projection. The
/// left null space LN(T), all rows x with x T = 0, is the orthogonal complement of the range of T. Everything here
/// works with an orthonormal basis U (S x rank) of the range. Padding must not enter T: pass slices without padding
/// tokens.
///
/// Results are deterministic and must not overlap operands or each other, unless a function says otherwise.
///
/// Throws before anything is launched: invalid_argument names the operand and its shape (extents that do not agree,
/// strides, null pointers, a tolerance that is NaN or negative); unsupported_device (double without fp64).
#pragma once

#include <cstdint>
#include <nullscope/core/context.hpp>
#include <nullscope/core/operation.hpp>
#include <nullscope/core/tensor.hpp>
#include <nullscope/core/view.hpp>
#include <nullscope/linalg/random.hpp>
#include <nullscope/linalg/svd.hpp>
#include <sycl/sycl.hpp>
#include <vector>

namespace nullscope {

/// The factors of T = v h for each head of a batch.
template <class Number>
struct head_values {
  view<const Number, 3> v;       ///< (batch, S, d_v)
  view<const Number, 3> h = {};  ///< (batch, d_v, d), batch stride 0: one h for all heads; default: T = v
};

/// The range of T, with k = min(S, d_v, d).
template <class Number>
struct range_results {
  view<Number, 3> u;             ///< (batch, S, k): columns [0, rank) are left singular vectors of T, the others zero
  view<Number, 2> s;             ///< (batch, k): the singular values of T, descending
  view<std::int64_t, 1> rank;    ///< (batch): singular values above the tolerance; dim LN(T) = S - rank
  view<std::int32_t, 1> status;  ///< (batch): svd_status
};

/// Computes V = Q R, the LQ of R H (d_v x d), the SVD of a d_v x d_v matrix, and U = Q U'. Cost: O(S d_v^2 + d d_v^2)
/// flops and O(S d_v + d d_v) workspace per head. The default tolerance is
/// max(min(S, 4096), d) * eps: see default_range_tolerance.
///
/// A head with NaN or infinity gets svd_not_finite, rank -1, and NaN in u and s; other heads are not affected. A head
/// that does not converge, or whose largest singular value overflows, gets rank -1 and NaN in u. A column of v whose
/// length overflows counts as infinity, however small h is.
sycl::event range_basis(context& ctx, const head_values<float>& operands, const range_results<float>& results,
                        const rank_tolerance& tolerance = {}, const events& dependencies = {});
sycl::event range_basis(context& ctx, const head_values<double>& operands, const range_results<double>& results,
                        const rank_tolerance& tolerance = {}, const events& dependencies = {});

/// reduced (batch, d_v, d_v), with h h^T = reduced reduced^T: stands for h (batch, d_v, d), d >= d_v, wherever only the
/// range and the singular values of v h matter, and is smaller. For many calls with the same h.
sycl::event reduce_projection(context& ctx, view<const float, 3> h, view<float, 3> reduced,
                              const events& dependencies = {});
sycl::event reduce_projection(context& ctx, view<const double, 3> h, view<double, 3> reduced,
                              const events& dependencies = {});

/// A basis of span(T, 1), whose complement is LN([T, 1]).
template <class Number>
struct with_ones_results {
  /// (batch, S, k + 1), read and written: comes with orthonormal columns [0, rank) and zeros after them, for example
  /// what `range_basis` writes into the slice of the first k columns, and a zero column.
  view<Number, 3> basis;
  view<std::int64_t, 1> rank_with_ones;  ///< (batch); dim LN([T, 1]) = S - rank_with_ones. May be `rank` itself.
};

/// Appends the vector of ones: if the part of 1 outside the span is longer than max(relative * |1|, absolute), it is
/// normalised into column `rank`, and rank_with_ones = rank + 1. Otherwise, and wherever rank = S, rank_with_ones =
/// rank. The default for `relative` is max(S, k + 1) * eps; less than 2 sqrt(k + 1) eps counts as that, because
/// rounding leaves nearly as much of a vector in the span. rank_with_ones is -1 if rank is -1 or above S, or if there
/// is no column left.
sycl::event append_ones(context& ctx, view<const std::int64_t, 1> rank, const with_ones_results<float>& results,
                        const rank_tolerance& tolerance = {}, const events& dependencies = {});
sycl::event append_ones(context& ctx, view<const std::int64_t, 1> rank, const with_ones_results<double>& results,
                        const rank_tolerance& tolerance = {}, const events& dependencies = {});

/// Which part of a row a projection keeps.
enum class row_part {
  range,      ///< x U U^T, in the range of T
  null_space  ///< x - x U U^T, in LN(T)
};

template <class Number>
struct projection_operands {
  view<const Number, 3> x;  ///< (batch, rows, S)
  view<const Number, 3> u;  ///< (batch, S, k), orthonormal or zero columns
};

/// out (batch, rows, S) = that part of x, by two products, 4 rows S k flops per head. out may be x itself.
sycl::event project(context& ctx, const projection_operands<float>& operands, view<float, 3> out, row_part part,
                    const events& dependencies = {});
sycl::event project(context& ctx, const projection_operands<double>& operands, view<double, 3> out, row_part part,
                    const events& dependencies = {});

/// out (batch, rows, S), contiguous: normally distributed rows of the complement of u (batch, S, k), whose covariance
/// is the projector onto it. The numbers depend on `stream` alone. Rows are projected twice, so that they are
/// orthogonal to u to rounding even if the complement is small.
sycl::event random_null_space_rows(context& ctx, view<const float, 3> u, view<float, 3> out, random_stream stream,
                                   const events& dependencies = {});
sycl::event random_null_space_rows(context& ctx, view<const double, 3> u, view<double, 3> out, random_stream stream,
                                   const events& dependencies = {});

template <class Number>
struct null_space_operands {
  view<const Number, 3> u;           ///< (batch, S, k), k <= S: columns [0, rank) orthonormal, the others zero
  view<const std::int64_t, 1> rank;  ///< (batch)
};

/// null_basis (batch, S, S): an explicit basis of the complement of u. Columns [0, S - rank) are orthonormal and
/// orthogonal to u, the others zero. A head with rank -1 gets NaN. For moderate S: it has S^2 numbers per head.
sycl::event null_space_basis(context& ctx, const null_space_operands<float>& operands, view<float, 3> null_basis,
                             const events& dependencies = {});
sycl::event null_space_basis(context& ctx, const null_space_operands<double>& operands, view<double, 3> null_basis,
                             const events& dependencies = {});

struct range_options {
  rank_tolerance tolerance = {};  ///< of the singular values of T
  bool with_ones = false;         ///< extend the basis to span(T, 1), with the default tolerance of `append_ones`
};

/// The range of a batch of T (S x d), on the context's device.
template <class Number>
struct range_tensors {
  tensor<Number> basis;            ///< (batch, S, k + 1): columns [0, rank) of T, then 1 if asked for; zero after them
  tensor<Number> s;                ///< (batch, k)
  std::vector<std::int64_t> rank;  ///< of T
  std::vector<std::int64_t> null_dimension;            ///< dim LN(T) = S - rank
  std::vector<std::int64_t> rank_with_ones;            ///< of [T, 1]; empty if not asked for
  std::vector<std::int64_t> null_dimension_with_ones;  ///< dim LN([T, 1]); empty if not asked for
};

/// Allocates, computes and waits. v is (batch, S, d_v) or (S, d_v); h is (batch, d_v, d), or (d_v, d) for the whole
/// batch. Throws computation_error with the ids of the heads that hold NaN or infinity, overflow, or did not converge.
template <class Number>
range_tensors<Number> range_basis(context& ctx, const tensor<Number>& v, const tensor<Number>& h,
                                  const range_options& options = {});

/// The same for T = t (batch, S, d) or (S, d).
template <class Number>
range_tensors<Number> range_basis(context& ctx, const tensor<Number>& t, const range_options& options = {});

}  // namespace nullscope

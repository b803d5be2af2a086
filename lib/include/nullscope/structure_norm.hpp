/// The structure-aware norm of attention matrices: entries that a task relies on count more than others.
///
///   |A|_S = 1 / (rows columns) sum_ij w_ij |a_ij|,   distance: |A - B|_S,   w_ij >= 0
///
/// It is a norm if all weights are positive, and a seminorm if some are zero: then |A|_S = 0 does not mean A = 0.
/// `check_structure_weights` says which. Weights of one give the plain norm: the mean absolute value of the entries.
///
///   structure_norm(ctx, {.a = a, .weights = w}, out);             // norms
///   structure_norm(ctx, {.a = a, .weights = w, .b = b}, out);     // distances
///
/// Functions on views do not read the weights on the host: a negative weight or NaN makes the result of its matrix NaN.
/// Any strides; neighbouring columns (last stride 1) are the fast case. Throws invalid_argument (shapes, strides, null
/// pointers) and unsupported_device (double without fp64).
#pragma once

#include <cstdint>
#include <nullscope/context.hpp>
#include <nullscope/effective_attention.hpp>
#include <nullscope/operation.hpp>
#include <nullscope/tensor.hpp>
#include <nullscope/view.hpp>
#include <sycl/sycl.hpp>

namespace nullscope {

template <class T>
struct structure_norm_operands {
  view<const T, 3> a;        ///< (batch, rows, columns)
  view<const T, 3> weights;  ///< (batch or 1, rows, columns)
  view<const T, 3> b = {};   ///< (batch, rows, columns); default: zero
};

/// out (batch) = |a - b|_S; 0 for matrices without entries.
sycl::event structure_norm(context& ctx, const structure_norm_operands<float>& operands, view<float, 1> out,
                           const events& dependencies = {});
sycl::event structure_norm(context& ctx, const structure_norm_operands<double>& operands, view<double, 1> out,
                           const events& dependencies = {});

/// Attention that is not stored: strips of rows are computed, summed and forgotten.
template <class T>
struct streamed_structure_operands {
  attention_factors<T> a;       ///< (heads, ...); p and u may be absent if only the raw attention is asked for
  view<const T, 3> weights;     ///< (heads or 1, queries, keys)
  attention_factors<T> b = {};  ///< of the same shape; default: zero
};

struct streamed_structure_options {
  attention_matrix matrix = attention_matrix::raw;  ///< null_part: the distance of raw and effective attention
  double scale = 0;                                 ///< of the scores; 0: 1 / sqrt(d_k)
  bool causal = false;
  std::int64_t rows = 0;  ///< of a strip, for all heads; 0: as many as fit into a few megabytes, at least one
};

/// out (heads) = |A - B|_S. Workspace: one strip (heads, rows, keys), two with b.
sycl::event structure_norm(context& ctx, const streamed_structure_operands<float>& operands, view<float, 1> out,
                           const streamed_structure_options& options = {}, const events& dependencies = {});
sycl::event structure_norm(context& ctx, const streamed_structure_operands<double>& operands, view<double, 1> out,
                           const streamed_structure_options& options = {}, const events& dependencies = {});

enum class structure_norm_kind {
  norm,     ///< all weights are positive
  seminorm  ///< some are zero
};

/// Waits. Throws invalid_argument, naming the entry, if a weight is negative, infinite or NaN.
template <class T>
structure_norm_kind check_structure_weights(const tensor<T>& weights);

}  // namespace nullscope

/// Effective attention (Brunner et al. 2020): the part of a head's attention that its output can depend on, without the
/// S x S matrix.
///
/// For one head, A = softmax(scale q k^T + bias) (queries, keys) and T = v h (keys, d). The rows of A split at the left
/// null space of T:
///
///   A = A_perp + A_par,  A_perp = A U U^T = P U^T,  A_par T = 0
///
/// with U (keys, rank) an orthonormal basis of the range of T, and P = A U (queries, rank): attention with U in place
/// of v. The factors take O(S rank) memory; `attention_part` gives the dense matrices, or tiles of them.
///
/// `heads` counts all heads: those of several layers, samples and sequences of the same length too. d_k and
/// min(keys, d_v, d) are at most 512, and at least 1. Padding must not enter T: pass slices without padding tokens, or
/// use `lengths` of the function on tensors. Deterministic.
///
/// Throws before anything is launched: invalid_argument names the operand and its shape (extents that do not agree,
/// strides, null pointers, a tolerance that is NaN or negative); unsupported_device (double without fp64, too little
/// local memory).
#pragma once

#include <algorithm>
#include <cstdint>
#include <nullscope/core/context.hpp>
#include <nullscope/core/operation.hpp>
#include <nullscope/core/tensor.hpp>
#include <nullscope/core/view.hpp>
#include <nullscope/linalg/svd.hpp>
#include <sycl/sycl.hpp>
#include <vector>

namespace nullscope {

template <class Number>
struct attention_heads {
  view<const Number, 3> q;          ///< (heads, queries, d_k)
  view<const Number, 3> k;          ///< (heads, keys, d_k)
  view<const Number, 3> v;          ///< (heads, keys, d_v)
  view<const Number, 3> h = {};     ///< (heads, d_v, d), batch stride 0: one h for all heads; default: T = v
  view<const Number, 3> bias = {};  ///< (heads, queries, keys), any strides: added to the scores; default: none

  /// min(keys, d_v, d), the largest possible rank.
  std::int64_t basis_columns() const {
    const std::int64_t columns = std::min(v.extent[1], v.extent[2]);
    return h.is_absent() ? columns : std::min(columns, h.extent[2]);
  }
};

/// Numbers about one head. The correlation is that of all queries * keys pairs of entries of A and A_perp. It is exact,
/// from sums: <A, A_perp> = |A_perp|^2 = |P|^2, sum A = queries, sum A_perp = (1^T P)(U^T 1). It is NaN if the variance
/// of A or A_perp is lost in rounding: in float, weights that differ by half a percent or less.
///
/// |A_par|^2 is the difference of the other two squares, so the error of null_norm is of the order of sqrt(eps) |A|; it
/// is 0 where the null space is {0}. A head whose rank is not known (NaN or infinity in v or h, singular values that
/// overflow) gets NaN, except for raw_norm, which depends on q and k alone.
template <class Number>
struct effective_attention_summary {
  Number pearson;                              ///< of A and A_perp
  Number raw_norm, effective_norm, null_norm;  ///< |A|_F, |A_perp|_F, |A_par|_F
};

/// With c = basis_columns(). Optional results are not computed if they are left out.
template <class Number>
struct effective_attention_results {
  view<Number, 3> p;             ///< (heads, queries, c); columns from the rank on are zero, as in u
  view<Number, 3> u;             ///< (heads, keys, c), last stride 1
  view<Number, 2> s;             ///< (heads, c): singular values of T
  view<std::int64_t, 1> rank;    ///< (heads); dim LN(T) = keys - rank
  view<std::int32_t, 1> status;  ///< (heads): from `range_basis`
  view<Number, 2> log_sum_exp;   ///< (heads, queries): of the scores

  view<effective_attention_summary<Number>, 1> summary = {};  ///< (heads), optional
  view<Number, 2> received_raw = {};  ///< (heads, keys), optional: column sums of A, a second pass over the scores
  view<Number, 2> received_effective = {};  ///< (heads, keys), optional: column sums of A_perp
};

struct effective_attention_options {
  double scale = 0;     ///< of the scores; 0: 1 / sqrt(d_k)
  bool causal = false;  ///< query i sees key j if j - keys <= i - queries
  rank_tolerance tolerance = {};
};

/// Cost: that of `range_basis`, and 2 queries keys (d_k + c) flops per head. Workspace: O(S (d_k + d_v)) per head.
sycl::event effective_attention(context& ctx, const attention_heads<float>& operands,
                                const effective_attention_results<float>& results,
                                const effective_attention_options& options = {}, const events& dependencies = {});
sycl::event effective_attention(context& ctx, const attention_heads<double>& operands,
                                const effective_attention_results<double>& results,
                                const effective_attention_options& options = {}, const events& dependencies = {});

/// Which matrix of a head.
enum class attention_matrix {
  raw,        ///< A
  effective,  ///< A_perp = P U^T
  null_part   ///< A_par = A - A_perp
};

/// q, k, and the results of `effective_attention` from them.
template <class Number>
struct attention_factors {
  view<const Number, 3> q, k;         ///< (heads, queries, d_k), (heads, keys, d_k)
  view<const Number, 2> log_sum_exp;  ///< (heads, queries)
  view<const Number, 3> p, u;         ///< (heads, queries, c), (heads, keys, c)
  view<const Number, 3> bias = {};    ///< as for `effective_attention`
};

struct attention_part_options {
  attention_matrix matrix = attention_matrix::effective;
  std::int64_t first_query = 0, first_key = 0;
  double scale = 0;      ///< as for `effective_attention`
  bool causal = false;   ///< as for `effective_attention`
  bool by_rows = false;  ///< p and u are those of `effective_attention_by_rows`; with `causal`
};

/// out (heads, rows, columns) = the tile of the matrix that begins at (first_query, first_key). With the defaults and
/// out (heads, queries, keys) it is the whole matrix. Any strides; fastest if the last stride of out is 1. Weights come
/// from log_sum_exp, as those of received_raw do: for scores of size x their relative error is about x eps.
sycl::event attention_part(context& ctx, const attention_factors<float>& factors, view<float, 3> out,
                           const attention_part_options& options = {}, const events& dependencies = {});
sycl::event attention_part(context& ctx, const attention_factors<double>& factors, view<double, 3> out,
                           const attention_part_options& options = {}, const events& dependencies = {});

template <class Number>
struct effective_attention_tensor_options : effective_attention_options {
  /// (batch): tokens of each sequence, without padding, as queries and as keys; from 1 to S. Default: all.
  std::vector<std::int64_t> lengths = {};

  /// (batch, heads, queries, keys), any strides: added to the scores; default: none.
  view<const Number, 4> bias = {};
};

/// On the context's device; (batch) is left out of the shapes if q has 3 dimensions.
template <class Number>
struct effective_attention_tensors {
  tensor<Number> p, u, s, log_sum_exp;                       ///< (batch, heads, ...); zeros where there is padding
  tensor<Number> received_raw, received_effective;           ///< (batch, heads, S)
  std::vector<std::int64_t> rank, null_dimension;            ///< (batch * heads); null_dimension = length - rank
  std::vector<effective_attention_summary<Number>> summary;  ///< (batch * heads)
};

/// Allocates, computes and waits. q, k (batch, heads, S, d_k), v (batch, heads, S, d_v), or the same without the batch;
/// h (heads, d_v, d), or tensor<Number>{} for T = v. Without lengths, q may have another number of tokens than k and v.
/// Throws computation_error with the ids of the heads that failed.
template <class Number>
effective_attention_tensors<Number> effective_attention(context& ctx, const tensor<Number>& q, const tensor<Number>& k,
                                                        const tensor<Number>& v, const tensor<Number>& h = {},
                                                        const effective_attention_tensor_options<Number>& options = {});

// Effective attention of causal models, row by row.
//
// A causal query i sees n_i = i + 1 + keys - queries keys. The projection of effective_attention.hpp, onto the range
// of all of T, would give it weight on keys that it does not see. Here row i is projected onto the range of the first
// n_i rows of T = v h alone:
//
//   row i of A_perp = o_i T_i^+, the smallest weights of the first n_i keys that give the head's output o_i
//
// so that A_perp is as causal as A. Row i differs from that of A only from the first key on that depends on the ones
// before it: as long as n_i <= d_v, T_i usually has full row rank and the null space is {0}.
//
// With U (keys, c) the basis of the range of T, and P = A U, row i is (y_i U^T)_j for j < n_i, with y_i = G_i^+ p_i
// and G_i the sum of u_j u_j^T over the first n_i keys. Rotations update a c x c factor of G_i, key by key: O(S c^2)
// per head beside the attention itself, nothing is S x S.
//
// A row of U belongs to the span of the ones before it if what is left of it is at most `row_tolerance` times as long
// as the longest row of U. The error of row i is of the order of eps |a_i| times the condition number of the first n_i
// rows of U, which is large only for prefixes with about as many rows as T has rank.
//
// Deterministic. Throws as `effective_attention` does.

struct effective_attention_by_rows_options {
  double scale = 0;               ///< of the scores; 0: 1 / sqrt(d_k)
  rank_tolerance tolerance = {};  ///< of the singular values of T
  double row_tolerance = -1;      ///< negative: max(keys, d) eps
};

/// Operands and results as for `effective_attention`, with these differences: query i sees key j if j - keys <= i -
/// queries; p holds the rows y_i, so that A_perp is P U^T where query i sees key j and zero elsewhere (`attention_part`
/// with by_rows); the correlation of the summary is that of the pairs of entries that the mask lets see. s, rank and
/// status are those of T with all keys.
///
/// Cost: that of `effective_attention`, and 8 keys c^2 flops per head. Workspace: 3 c^2 + O(S (d_k + d_v)) per head.
sycl::event effective_attention_by_rows(context& ctx, const attention_heads<float>& operands,
                                        const effective_attention_results<float>& results,
                                        const effective_attention_by_rows_options& options = {},
                                        const events& dependencies = {});
sycl::event effective_attention_by_rows(context& ctx, const attention_heads<double>& operands,
                                        const effective_attention_results<double>& results,
                                        const effective_attention_by_rows_options& options = {},
                                        const events& dependencies = {});

}  // namespace nullscope

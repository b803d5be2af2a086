/// Effective attention (Brunner et al. 2020): the part of a head's attention that its output can depend on, without the
/// S x S matrix.
///
/// For one head, A = softmax(scale q k^T) (queries, keys) and T = v h (keys, d). The rows of A split at the left null
/// space of T:
///
///   A = A_perp + A_par,  A_perp = A U U^T = P U^T,  A_par T = 0
///
/// with U (keys, rank) an orthonormal basis of the range of T, and P = A U (queries, rank): attention with U in place
/// of v. The factors take O(S rank) memory; `attention_part` gives the dense matrices, or tiles of them, on request.
///
///   q (heads, queries, dk), k (heads, keys, dk), v (heads, keys, dv), h (heads, dv, d), or left out: T = v
///
/// `heads` counts whatever is a head: layers, samples and sequences of the same length too. dk and min(keys, dv, d) are
/// at most 512. Padding must not enter T: slice the tokens that count, or let the tensor version do it (`lengths`).
///
/// T is float or double. Everything validates first: invalid_argument names the operand and its shape,
/// unsupported_device a device without fp64 or with too little local memory; nothing is overwritten then.
/// Deterministic.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nullscope/null_space.hpp>
#include <nullscope/tensor.hpp>
#include <nullscope/view.hpp>
#include <span>
#include <sycl/sycl.hpp>
#include <vector>

namespace nullscope {

/// What a head's attention is made from.
template <class T>
struct attention_heads {
  view<const T, 3> q, k, v;
  view<const T, 3> h = {};  ///< an empty view, view<const T, 3>{}: T = v; batch stride 0: one h for all heads

  bool has_projection() const { return h.data != nullptr || h.extent[0] != 0 || h.extent[1] != 0 || h.extent[2] != 0; }

  /// k = min(keys, dv, d), the largest rank there can be.
  std::int64_t basis_columns() const {
    const std::int64_t columns = std::min(v.extent[1], v.extent[2]);
    return has_projection() ? std::min(columns, h.extent[2]) : columns;
  }
};

struct effective_attention_options {
  double scale = 0;     ///< of the scores; 0: 1 / sqrt(dk)
  bool causal = false;  ///< query i sees key j if j - keys <= i - queries
  rank_tolerance tolerance = {};
};

/// Numbers about one head. The correlation is that of all queries * keys pairs of entries of A and A_perp, exact, from
/// sums: <A, A_perp> = |A_perp|^2 = |P|^2, sum A = queries, sum A_perp = (1^T P)(U^T 1). It is NaN where a part has no
/// variance that rounding leaves: in float, weights that differ by half a percent or less.
///
/// |A_par|^2 is the difference of the other two squares, so null_norm is right to some sqrt(eps) |A|; it is 0 where the
/// null space is {0}. A head whose rank is not known (NaN or infinity in v or h, singular values that overflow) gets
/// NaN, but for raw_norm, which is of q and k alone.
template <class T>
struct effective_attention_summary {
  T pearson;                              ///< of A and A_perp
  T raw_norm, effective_norm, null_norm;  ///< |A|_F, |A_perp|_F, |A_par|_F
};

/// Where the results go; those below the line are left out if they have no data. k is basis_columns().
template <class T>
struct effective_attention_results {
  view<T, 3> p;                  ///< (heads, queries, k); columns from the rank on are zero, as in u
  view<T, 3> u;                  ///< (heads, keys, k), last stride 1
  view<T, 2> s;                  ///< (heads, k): singular values of T
  view<std::int64_t, 1> rank;    ///< (heads); dim LN(T) = keys - rank
  view<std::int32_t, 1> status;  ///< (heads): as `range_basis` gives it
  view<T, 2> log_sum_exp;        ///< (heads, queries): of the scores
  // ----
  view<effective_attention_summary<T>, 1> summary = {};  ///< (heads)
  view<T, 2> received_raw = {};        ///< (heads, keys): column sums of A; costs a second pass over the scores
  view<T, 2> received_effective = {};  ///< (heads, keys): column sums of A_perp
};

/// Bytes that `effective_attention` needs; only extents and strides matter.
template <class T>
std::int64_t effective_attention_scratchpad_size(const sycl::queue& queue, const attention_heads<T>& heads);

/// Cost: `range_basis`, and 2 queries keys (dk + k) operations a head. Memory: O(S (dk + dv)) a head.
template <class T>
sycl::event effective_attention(sycl::queue& queue, const attention_heads<T>& heads,
                                const effective_attention_results<T>& results, std::span<std::byte> scratchpad,
                                const effective_attention_options& options = {},
                                const std::vector<sycl::event>& dependencies = {});

/// Which matrix of a head.
enum class attention_matrix {
  raw,        ///< A
  effective,  ///< A_perp = P U^T
  null_part   ///< A_par = A - A_perp
};

/// What the matrices of a head are made from: q and k, and what `effective_attention` made of them.
template <class T>
struct attention_factors {
  view<const T, 3> q, k;         ///< (heads, queries, dk), (heads, keys, dk)
  view<const T, 2> log_sum_exp;  ///< (heads, queries)
  view<const T, 3> p, u;         ///< (heads, queries, k), (heads, keys, k)
};

/// out (heads, rows, columns) = the tile of the matrix that begins at (first_query, first_key); with both 0 and the
/// extents (heads, queries, keys) all of it. Options as `effective_attention` had them. Any strides; fastest where the
/// last one of out is 1. Weights come from log_sum_exp, as those of received_raw do: for scores of size x they are
/// right to about x eps.
template <class T>
sycl::event attention_part(sycl::queue& queue, attention_matrix matrix, const attention_factors<T>& factors,
                           std::int64_t first_query, std::int64_t first_key, view<T, 3> out,
                           const effective_attention_options& options = {},
                           const std::vector<sycl::event>& dependencies = {});

/// The tensor version's answer, on the queue's device; (batch) is left out of the shapes if q has 3 dimensions.
template <class T>
struct effective_attention_tensors {
  tensor<T> p, u, s, log_sum_exp;                       ///< (batch, heads, ...); zeros where there is padding
  tensor<T> received_raw, received_effective;           ///< (batch, heads, S)
  std::vector<std::int64_t> rank, null_dimension;       ///< (batch * heads); null_dimension = tokens that count - rank
  std::vector<effective_attention_summary<T>> summary;  ///< (batch * heads)
};

/// Allocates, computes and waits. q, k (batch, heads, S, dk), v (batch, heads, S, dv), h (heads, dv, d), or tensor<T>{}
/// for T = v; or all but h without the batch. lengths (batch): the tokens of each sequence that are no padding,
/// as queries and as keys; none given: all. Throws computation_error with the ids of the heads that failed.
template <class T>
effective_attention_tensors<T> effective_attention(sycl::queue& queue, const tensor<T>& q, const tensor<T>& k,
                                                   const tensor<T>& v, const tensor<T>& h = {},
                                                   const effective_attention_options& options = {},
                                                   const std::vector<std::int64_t>& lengths = {});

}  // namespace nullscope

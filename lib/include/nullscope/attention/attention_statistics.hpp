/// Correlation and norms of raw and effective attention from some of a head's queries: O(S m) instead of O(S^2) work.
///
/// With the notation of effective_attention.hpp, correlation and norms of a head are functions of three sums over the
/// rows a of A (a_perp = a U U^T):
///
///   |A|^2 = sum |a|^2,  |A_perp|^2 = sum |a_perp|^2,  sum A_perp = sum of (1^T a_perp)
///
/// For a random sample of m of N rows, without replacement, N / m times the sums of the sample are unbiased. The
/// standard error of a function f of them is that of its linear part (the delta method), with the factor of a finite
/// population: se(f)^2 = N^2 (1 - m / N) / m g^T C g, where g is the gradient of f and C the covariance of the three
/// numbers over the sampled rows. Beside it, f has a bias of order 1 / m; and where few rows hold most of a sum, a
/// small sample may miss them and its standard error is too small. With all rows f is exact, and se(f) = 0.
///
/// First `attention_row_moments` on the device, then `sum_rows` and `estimate_attention` on the host.
#pragma once

#include <array>
#include <cstdint>
#include <nullscope/attention/effective_attention.hpp>
#include <nullscope/core/context.hpp>
#include <nullscope/core/operation.hpp>
#include <nullscope/core/view.hpp>
#include <nullscope/linalg/random.hpp>
#include <span>
#include <sycl/sycl.hpp>
#include <vector>

namespace nullscope {

template <class Number>
struct attention_row_operands {
  view<const Number, 3> q;                ///< (heads, queries, d_k)
  view<const Number, 3> k;                ///< (heads, keys, d_k)
  view<const Number, 3> u;                ///< (heads, keys, c), last stride 1: the basis that `range_basis` writes
  view<const Number, 3> bias = {};        ///< (heads, queries, keys), any strides: added to the scores; default: none
  view<const std::int64_t, 2> rows = {};  ///< (heads, m): which queries; default: m neighbours, see the options
};

struct attention_row_options {
  double scale = 0;              ///< of the scores; 0: 1 / sqrt(d_k)
  bool causal = false;           ///< query i sees key j if j - keys <= i - queries
  std::int64_t first_query = 0;  ///< of the m neighbours; 0 with `rows`
};

/// moments (heads, m, 3), contiguous: |a|^2, |a_perp|^2 and the sum of a_perp for each of the m rows of A. A number in
/// `rows` that is not a query gives NaN. d_k and c are from 1 to 512.
///
/// Cost: 2 m keys (d_k + c) flops per head. Workspace: O(min(m, block) (d_k + c)) per head; with `rows` and a bias or
/// `causal`, 2^22 numbers per head more. Deterministic: a row of a head that is computed alone has the same bits in
/// every call whose first row is a multiple of 12288 away.
///
/// Throws before anything is launched: invalid_argument names the operand and its shape; unsupported_device (double
/// without fp64, too little local memory).
sycl::event attention_row_moments(context& ctx, const attention_row_operands<float>& operands, view<float, 3> moments,
                                  const attention_row_options& options = {}, const events& dependencies = {});
sycl::event attention_row_moments(context& ctx, const attention_row_operands<double>& operands, view<double, 3> moments,
                                  const attention_row_options& options = {}, const events& dependencies = {});

/// Sums over rows, in double: of the three moments, and of their six products (00, 01, 02, 11, 12, 22).
struct attention_sums {
  std::int64_t rows = 0;
  std::array<double, 3> sum = {};
  std::array<double, 6> product = {};

  attention_sums& operator+=(const attention_sums& other);
};

/// Of the moments (m, 3) of one head, on the host, from the first row to the last.
attention_sums sum_rows(std::span<const float> moments);
attention_sums sum_rows(std::span<const double> moments);

/// The head that rows were taken from.
struct attention_population {
  std::int64_t queries, keys;
  std::int64_t rank;         ///< of T; the null space is {0} if it is `keys`
  bool causal = false;       ///< as above: queries that see no key have no weights
  double epsilon = 0x1p-52;  ///< of the moments' type: what counts as no variance
};

struct estimated_number {
  double value, standard_error;  ///< NaN if it is not known: of one row, or where nothing varies
};

/// As `effective_attention_summary`, which it equals, but for rounding, with all rows.
struct attention_estimate {
  estimated_number pearson;                              ///< of A and A_perp
  estimated_number raw_norm, effective_norm, null_norm;  ///< |A|_F, |A_perp|_F, |A_par|_F
};

/// Throws invalid_argument if there are no rows, or more than queries.
attention_estimate estimate_attention(const attention_sums& sums, const attention_population& population);

/// `count` of the numbers 0 to rows - 1, each set of them with the same probability; ascending. All if count >= rows.
/// Throws invalid_argument if one of them is negative.
std::vector<std::int64_t> random_rows(random_stream stream, std::int64_t rows, std::int64_t count);

// Attention between classes of tokens: how much queries of one class attend to keys of another, in raw and effective
// attention, and how spread out it is. Matrices are formed tile by tile, in bounded memory.
//
// A class is a number per token; which class is which is the caller's business ([CLS], [SEP], punctuation, ...).
// Classes that are negative, or not below the number of classes, count nowhere.
//
// Overwrites the results. Deterministic. Throws invalid_argument (shapes, strides, null pointers) or
// unsupported_device (double without fp64); see context.hpp.

/// The class of each query and of each key, on the device.
struct class_views {
  view<const std::int32_t, 1> queries, keys;
};

/// Any matrices, such as those of `attention_part` or `attention_rollout`.
template <class T>
struct class_sum_operands {
  view<const T, 3> x;  ///< (batch, queries, keys)
  class_views classes;
};

/// sums (batch, classes, classes): entry (a, b) is the sum of x_ij over queries i of class a and keys j of class b.
/// Cost: 2 queries keys classes flops per matrix.
sycl::event class_sums(context& ctx, const class_sum_operands<float>& operands, view<float, 3> sums,
                       const events& dependencies = {});
sycl::event class_sums(context& ctx, const class_sum_operands<double>& operands, view<double, 3> sums,
                       const events& dependencies = {});

/// q, k, and what `effective_attention` or `effective_attention_by_rows` made of them.
template <class T>
struct attention_class_operands {
  attention_factors<T> factors;
  class_views classes;
};

template <class T>
struct attention_class_results {
  view<T, 3> raw;           ///< (heads, classes, classes): sums of A, as above
  view<T, 3> effective;     ///< the same of A_perp; that of A_par is the difference
  view<T, 2> entropy = {};  ///< (heads, queries), optional: of the rows of A, in nats
};

struct attention_class_options {
  double scale = 0;      ///< as for `effective_attention`
  bool causal = false;   ///< as for `effective_attention`
  bool by_rows = false;  ///< as for `attention_part`

  /// Workspace for tiles of A and A_perp, about; at least one row of each head.
  std::int64_t tile_bytes = 64 << 20;
};

/// Cost: that of `attention_part` for all of A and A_perp, and of their class sums.
sycl::event attention_classes(context& ctx, const attention_class_operands<float>& operands,
                              const attention_class_results<float>& results,
                              const attention_class_options& options = {}, const events& dependencies = {});
sycl::event attention_classes(context& ctx, const attention_class_operands<double>& operands,
                              const attention_class_results<double>& results,
                              const attention_class_options& options = {}, const events& dependencies = {});

// Attention rollout (Abnar and Zuidema 2020): attention multiplied through the layers, the usual baseline beside an
// attribution. Layer by layer:
//
//   R_l = M_l R_(l-1),  M_l = (1 - r) mean_h |A_lh| with rows normalised to 1 + r I,  R_0 = I
//
// where r stands for the residual connection. With raw attention this is the published formula, as rows of A are
// positive and sum to 1. Effective attention may be negative: its size counts. Rows of R sum to 1; a row of A without
// weight passes its token on.
//
// Overwrites the result. Throws invalid_argument (shapes, strides, null pointers, a residual that is not from 0 to 1)
// or unsupported_device (double without fp64); see context.hpp.

template <class T>
struct rollout_operands {
  view<const T, 3> attention;   ///< (heads, S, S): of one layer, raw or effective
  view<const T, 2> below = {};  ///< (S, S): R of the layer below; default: the identity
};

struct rollout_options {
  double residual = 0.5;  ///< r
};

/// out (S, S) = R of this layer; must not overlap `below`. Cost: 2 S^3 flops. Workspace: S^2 numbers.
sycl::event attention_rollout(context& ctx, const rollout_operands<float>& operands, view<float, 2> out,
                              const rollout_options& options = {}, const events& dependencies = {});
sycl::event attention_rollout(context& ctx, const rollout_operands<double>& operands, view<double, 2> out,
                              const rollout_options& options = {}, const events& dependencies = {});

}  // namespace nullscope

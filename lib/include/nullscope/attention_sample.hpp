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
#include <nullscope/context.hpp>
#include <nullscope/operation.hpp>
#include <nullscope/random.hpp>
#include <nullscope/view.hpp>
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

/// Rows are computed in blocks of this many. So a row has the same bits in every call whose first row is a whole number
/// of blocks away, for heads that are computed one by one.
inline constexpr std::int64_t attention_row_block = 12288;

/// moments (heads, m, 3), contiguous: |a|^2, |a_perp|^2 and the sum of a_perp for each of the m rows of A. A number in
/// `rows` that is not a query gives NaN. d_k and c are from 1 to 512.
///
/// Cost: 2 m keys (d_k + c) flops per head. Workspace: O(min(m, block) (d_k + c)) per head; with `rows` and a bias or
/// `causal`, 2^22 numbers per head more. Deterministic.
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

}  // namespace nullscope

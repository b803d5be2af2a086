/// Attention: out = softmax(scale q k^T + bias) v for each head, without storing the matrix of weights.
///
///   q    (batch, heads, queries, dk)
///   k    (batch, heads, keys, dk)
///   v    (batch, heads, keys, dv)
///   bias (batch, heads, queries, keys), optional
///   out  (batch, heads, queries, dv)
///
/// dk and dv are independent, from 1 to 512. Any strides; k and v may have batch or head stride 0. Workspace: at most a
/// copy of k and v, O(keys (dk + dv)) per head; none on a CPU for float and double whose last stride is 1. Cost:
/// 2 queries keys (dk + dv) flops per head.
///
/// The bias may have any strides, also 0 and negative ones: relative positions are a table of 2 S - 1 numbers per head,
/// seen through strides +1 along keys and -1 along queries (relative_bias.hpp). A bias of -inf hides a key;
/// bias / scale must not overflow.
///
/// Types: float, double, or bfloat16 q, k and v with bias, sums and results in float. On a CPU with AMX, bfloat16
/// without a bias runs on the matrix engine, which rounds the weights to bfloat16 before the product with v.
///
/// Special values. A query that sees no key gets zeros, and -inf as its log_sum_exp. NaN spreads to the rows that see
/// it (with `causal`, NaN in v also to rows just before those); NaN beyond `lengths` is not seen. A score of +inf makes
/// its row NaN, a score of -inf has no weight. Finite scores may have any size.
///
/// Overwrites all results. Throws invalid_argument (shapes, strides, null pointers) or unsupported_device (no 64-bit
/// floating point; too little local memory for dk and dv); see context.hpp.
#pragma once

#include <cstdint>
#include <nullscope/bfloat16.hpp>
#include <nullscope/context.hpp>
#include <nullscope/operation.hpp>
#include <nullscope/view.hpp>
#include <sycl/sycl.hpp>
#include <type_traits>

namespace nullscope {

/// What attention sums in, and the type of its results: float for bfloat16 operands, otherwise the type of the
/// operands.
template <class T>
using attention_number = std::conditional_t<std::is_same_v<T, bfloat16>, float, T>;

template <class T>
struct attention_operands {
  view<const T, 4> q, k, v;
  view<const attention_number<T>, 4> bias = {};  ///< added to the scores; default: none
};

template <class T>
struct attention_results {
  view<T, 4> out;
  view<T, 3> log_sum_exp = {};     ///< (batch, heads, queries): log of the sum of exp(score) over the visible keys
  view<T, 3> sum_of_squares = {};  ///< (batch, heads, queries): of the weights of the row
};

struct attention_options {
  double scale = 0;     ///< of the scores; 0: 1 / sqrt(dk)
  bool causal = false;  ///< query i sees key j if j - keys <= i - queries

  /// (batch), contiguous, on the device: the number of keys without padding; default: all.
  view<const std::int64_t, 1> lengths = {};
};

sycl::event attention(context& ctx, const attention_operands<float>& operands, const attention_results<float>& results,
                      const attention_options& options = {}, const events& dependencies = {});
sycl::event attention(context& ctx, const attention_operands<double>& operands,
                      const attention_results<double>& results, const attention_options& options = {},
                      const events& dependencies = {});
sycl::event attention(context& ctx, const attention_operands<bfloat16>& operands,
                      const attention_results<float>& results, const attention_options& options = {},
                      const events& dependencies = {});

}  // namespace nullscope

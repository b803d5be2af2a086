/// Attention: out = softmax(scale q k^T) v for each head, without the matrix of weights.
///
///   q    (batch, heads, queries, dk)
///   k    (batch, heads, keys, dk)
///   v    (batch, heads, keys, dv)
///   out  (batch, heads, queries, dv)
///
/// dk and dv are independent, from 1 to 512; any strides (k and v may have batch or head stride 0). Memory beside the
/// operands: at most a copy of k and v in the scratchpad, O(keys (dk + dv)) a head; on a CPU none for float and double
/// whose last stride is 1. Cost 2 queries keys (dk + dv) operations a head.
///
/// Float, double, or bfloat16 q, k, v with float sums and results. On a CPU with AMX, bfloat16 takes the matrix engine:
/// the weights are then rounded to bfloat16 before they meet v, as usual in that precision. A query that sees no key
/// gets zeros, and -inf as its log_sum_exp. NaN spreads to the rows that see it (with `causal`, NaN in v also to rows
/// just before those); NaN beyond `lengths` is not seen; a score of +inf makes its row NaN, one of -inf has no weight.
/// Finite scores may have any size. Deterministic.
///
/// Throws, before anything is launched: invalid_argument (shapes, strides, null pointers, scratchpad),
/// unsupported_device (no 64-bit floating point; too little local memory for dk and dv).
#pragma once

#include <cstddef>
#include <cstdint>
#include <nullscope/bfloat16.hpp>
#include <nullscope/view.hpp>
#include <span>
#include <sycl/sycl.hpp>
#include <type_traits>
#include <vector>

namespace nullscope {

struct attention_options {
  double scale = 0;     ///< of the scores; 0: 1 / sqrt(dk)
  bool causal = false;  ///< query i sees key j if j - keys <= i - queries

  /// (batch), contiguous, on the device: how many keys are no padding; left out: all.
  view<const std::int64_t, 1> lengths = {};
};

/// What attention can give beside its output; views without data are left out.
template <class T>
struct attention_row_results {
  view<T, 3> log_sum_exp = {};     ///< (batch, heads, queries): log of the sum of exp(score) over the visible keys
  view<T, 3> sum_of_squares = {};  ///< (batch, heads, queries): of the weights of the row
};

/// Bytes that `attention` needs for these operands; only extents and strides matter.
template <class In>
std::int64_t attention_scratchpad_size(const sycl::queue& queue, view<const In, 4> k, view<const In, 4> v);

/// In = T, or In = bfloat16 and T = float. Writes out and the row results; uses the scratchpad until the event is
/// complete.
template <class In, class T>
sycl::event attention(sycl::queue& queue, view<const In, 4> q, view<const In, 4> k, view<const In, 4> v, view<T, 4> out,
                      const std::type_identity_t<attention_row_results<T>>& row_results,
                      std::span<std::byte> scratchpad, const attention_options& options = {},
                      const std::vector<sycl::event>& dependencies = {});

}  // namespace nullscope

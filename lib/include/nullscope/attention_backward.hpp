/// Gradients of attention: from d_out = dL / d out to d_q, d_k and d_v, without the matrix of weights.
///
///   q            (batch, heads, queries, dk)
///   k            (batch, heads, keys, dk)
///   v            (batch, heads, keys, dv)
///   out, d_out   (batch, heads, queries, dv)
///   log_sum_exp  (batch, heads, queries)
///   d_q, d_k, d_v as q, k, v
///
/// With A = softmax(scale q k^T) and D = row sums of d_out * out:  d_v = A^T d_out,  G = A * (d_out v^T - D),
/// d_q = scale G k,  d_k = scale G^T q.
///
/// q, k, v, out, log_sum_exp and the options are those of `attention`. Any strides. Masked keys get and give nothing;
/// with `causal`, NaN or infinity in a token also spreads to the gradients of some tokens that do not see it.
/// Ten operations a pair of tokens and column, and O((queries + keys) (dk + dv)) memory a head in the scratchpad.
/// Deterministic: sums are taken in an order that depends on shapes and device alone. Weights come from log_sum_exp, so
/// for scores of size x they are right to about x eps.
///
/// Throws, before anything is launched: invalid_argument (shapes, strides, null pointers, scratchpad),
/// unsupported_device (no 64-bit floating point; too little local memory).
#pragma once

#include <cstddef>
#include <cstdint>
#include <nullscope/attention.hpp>
#include <nullscope/view.hpp>
#include <span>
#include <sycl/sycl.hpp>
#include <type_traits>
#include <vector>

namespace nullscope {

/// What the gradients are taken from.
template <class In, class T>
struct attention_record {
  view<const In, 4> q, k, v;
  view<const T, 4> out;
  view<const T, 3> log_sum_exp;
};

template <class T>
struct attention_gradients {
  view<T, 4> d_q, d_k, d_v;
};

/// Bytes that `attention_backward` needs for these operands; only extents and strides matter.
template <class In>
std::int64_t attention_backward_scratchpad_size(const sycl::queue& queue, view<const In, 4> q, view<const In, 4> k,
                                                view<const In, 4> v);

/// In = T (float or double), or In = bfloat16 and T = float. Overwrites the gradients; uses the scratchpad until the
/// event is complete.
template <class In, class T>
sycl::event attention_backward(sycl::queue& queue, const attention_record<In, T>& forward, view<const T, 4> d_out,
                               const std::type_identity_t<attention_gradients<T>>& gradients,
                               std::span<std::byte> scratchpad, const attention_options& options = {},
                               const std::vector<sycl::event>& dependencies = {});

}  // namespace nullscope

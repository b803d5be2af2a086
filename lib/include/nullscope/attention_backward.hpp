/// Gradients of attention: from d_out = dL / d out to d_q, d_k and d_v, without storing the matrix of weights.
///
///   q            (batch, heads, queries, dk)
///   k            (batch, heads, keys, dk)
///   v            (batch, heads, keys, dv)
///   out, d_out   (batch, heads, queries, dv)
///   log_sum_exp  (batch, heads, queries)
///   bias, d_bias (batch, heads, queries, keys), optional
///   d_q, d_k, d_v as q, k, v
///
/// With A = softmax(scale q k^T + bias) and D = row sums of d_out * out:  d_v = A^T d_out,  G = A * (d_out v^T - D),
/// d_q = scale G k,  d_k = scale G^T q,  d_bias = G.
///
/// q, k, v, out, log_sum_exp and the options are those of `attention`. Any strides. Masked keys neither get nor give a
/// gradient. With `causal`, NaN or infinity in a token also spreads to the gradients of some tokens that do not see it.
/// Weights come from log_sum_exp: for scores of size x their relative error is about x eps. Sums are taken in an order
/// that depends on shapes and device alone.
///
/// Types: float, double, or bfloat16 q, k and v with everything else in float. Cost: 10 flops per query, key and
/// column. Workspace: O((queries + keys) (dk + dv)) per head, and as much as the distinct numbers of d_bias.
///
/// Overwrites the gradients. Throws invalid_argument (shapes, strides, null pointers) or unsupported_device (no 64-bit
/// floating point; too little local memory); see context.hpp.
#pragma once

#include <nullscope/attention.hpp>
#include <nullscope/bfloat16.hpp>
#include <nullscope/context.hpp>
#include <nullscope/operation.hpp>
#include <nullscope/view.hpp>
#include <sycl/sycl.hpp>

namespace nullscope {

/// The operands and results of the forward pass, and the gradient of its output.
template <class T>
struct attention_backward_operands {
  view<const T, 4> q, k, v;
  view<const attention_number<T>, 4> out;
  view<const attention_number<T>, 3> log_sum_exp;
  view<const attention_number<T>, 4> d_out;
  view<const attention_number<T>, 4> bias = {};
};

template <class T>
struct attention_gradients {
  view<T, 4> d_q, d_k, d_v;

  /// Optional. Where entries share an address, it gets the sum of their gradients: along batch or heads (stride 0),
  /// queries (stride 0), or diagonals (stride -s along queries, s along keys).
  view<T, 4> d_bias = {};
};

sycl::event attention_backward(context& ctx, const attention_backward_operands<float>& operands,
                               const attention_gradients<float>& gradients, const attention_options& options = {},
                               const events& dependencies = {});
sycl::event attention_backward(context& ctx, const attention_backward_operands<double>& operands,
                               const attention_gradients<double>& gradients, const attention_options& options = {},
                               const events& dependencies = {});
sycl::event attention_backward(context& ctx, const attention_backward_operands<bfloat16>& operands,
                               const attention_gradients<float>& gradients, const attention_options& options = {},
                               const events& dependencies = {});

}  // namespace nullscope

/// The tangent of attention (forward-mode derivative), for many tangents at once, without a matrix of queries x keys.
///
///   A      = softmax(scale q k^T + bias)
///   ds     = scale (dq k^T + q dk^T)
///   d_out  = (A * ds) v - rowsum(A * ds) * out + A dv
///
///   q, k, v (batch, heads, tokens, dk or dv) and out, log_sum_exp are operands and results of `attention`
///   dq, dk, dv, d_out (tangents, batch, heads, tokens, dk or dv)
///
/// One streaming pass: weights are computed block by block from log_sum_exp, once for several tangents. Any strides; dk
/// and dv from 1 to 512. Workspace: copies of q, k, v and out, and of the tangents of a few at a time. Cost:
/// 4 queries keys (dk + dv) flops per head and tangent. The order of all sums depends only on shapes and the device.
///
/// A query that sees no key gets zeros. NaN spreads to the rows that see it, as in `attention`.
///
/// Overwrites d_out, which must not overlap an operand. Throws invalid_argument (shapes, strides, null pointers) or
/// unsupported_device (no 64-bit floating point; too little local memory); see context.hpp.
#pragma once

#include <nullscope/attention.hpp>
#include <nullscope/context.hpp>
#include <nullscope/operation.hpp>
#include <nullscope/view.hpp>
#include <sycl/sycl.hpp>

namespace nullscope {

template <class T>
struct attention_tangent_operands {
  view<const T, 4> q, k, v;  ///< as given to `attention`
  view<const T, 4> out;      ///< (batch, heads, queries, dv): its results
  view<const T, 3> log_sum_exp;
  view<const T, 5> dq, dk, dv;  ///< (tangents, batch, heads, tokens, dk or dv)
  view<const T, 4> bias = {};   ///< (batch, heads, queries, keys), as given to `attention`; it has no tangent
};

/// The options must be those given to `attention`.
sycl::event attention_tangent(context& ctx, const attention_tangent_operands<float>& operands, view<float, 5> d_out,
                              const attention_options& options = {}, const events& dependencies = {});
sycl::event attention_tangent(context& ctx, const attention_tangent_operands<double>& operands, view<double, 5> d_out,
                              const attention_options& options = {}, const events& dependencies = {});

}  // namespace nullscope

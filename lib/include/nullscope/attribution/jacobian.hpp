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

#include <cstdint>
#include <nullscope/attention/attention.hpp>
#include <nullscope/core/context.hpp>
#include <nullscope/core/operation.hpp>
#include <nullscope/core/tensor.hpp>
#include <nullscope/core/view.hpp>
#include <nullscope/model/transformer.hpp>
#include <span>
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

// Products with the Jacobians of a transformer's hidden states with respect to its inputs x, the sum of the
// embeddings.
//
//   forward_record<float> record(ctx, config, batch.size(), batch.tokens(), keep::backward);
//   forward(ctx, model, batch, {}, {.record = &record});
//   jacobian_vector_products(ctx, model, batch, d_inputs, d_hidden, {.record = &record});
//
// Functions on views take the record of a forward pass and return an event; see context.hpp for errors. The model, the
// batch and the record must live until it is complete.

template <class T>
struct jacobian_options {
  forward_record<T>* record = nullptr;  ///< of a `forward` of this batch, with keep::backward and without recompute
  std::int64_t layer = 0;               ///< hidden state, 1 to the number of layers; 0: the last one
};

/// d_hidden (tangents, batch, S, d) = J d_inputs (tangents, batch, S, d), with J the Jacobian of hidden state `layer`.
/// One sweep forward through the layers for all tangents. Rows of d_hidden beyond the length of a sequence are
/// undefined. Workspace: about 8 times the size of d_inputs.
sycl::event jacobian_vector_products(context& ctx, const transformer<float>& model, const token_batch& batch,
                                     view<const float, 4> d_inputs, view<float, 4> d_hidden,
                                     const jacobian_options<float>& options, const events& dependencies = {});
sycl::event jacobian_vector_products(context& ctx, const transformer<double>& model, const token_batch& batch,
                                     view<const double, 4> d_inputs, view<double, 4> d_hidden,
                                     const jacobian_options<double>& options, const events& dependencies = {});

/// d_inputs (vectors, batch, S, d) = J^T d_hidden (vectors, batch, S, d), with J the Jacobian of the last hidden state:
/// one backward pass per vector. options.layer must be 0 or the last one. Rows of d_hidden beyond the length of a
/// sequence must be zero.
sycl::event vector_jacobian_products(context& ctx, const transformer<float>& model, const token_batch& batch,
                                     view<const float, 4> d_hidden, view<float, 4> d_inputs,
                                     const jacobian_options<float>& options, const events& dependencies = {});
sycl::event vector_jacobian_products(context& ctx, const transformer<double>& model, const token_batch& batch,
                                     view<const double, 4> d_hidden, view<double, 4> d_inputs,
                                     const jacobian_options<double>& options, const events& dependencies = {});

/// One block of a Jacobian: de_j^l / dx_i of a sequence of the batch.
struct jacobian_block {
  std::int64_t sequence, layer, hidden_token, input_token;
};

struct jacobian_blocks_options {
  std::int64_t from = -1;                       ///< x is hidden state `from`; -1: the sum of the embeddings
  std::int64_t memory = std::int64_t{2} << 30;  ///< bytes on the device, without the model and the result
};

/// The dense blocks (blocks, d, d): row c' is component c' of the hidden token, column c that of the input token. Runs
/// the forward pass, and one sweep for each input token that occurs; waits. Throws invalid_argument, naming the block,
/// if there is no such layer or token.
tensor<float> jacobian_blocks(context& ctx, const transformer<float>& model, const token_batch& batch,
                              std::span<const jacobian_block> blocks, const jacobian_blocks_options& options = {});
tensor<double> jacobian_blocks(context& ctx, const transformer<double>& model, const token_batch& batch,
                               std::span<const jacobian_block> blocks, const jacobian_blocks_options& options = {});

}  // namespace nullscope

/// Products with the Jacobians of a transformer's hidden states with respect to its inputs x, the sum of the
/// embeddings.
///
///   forward_record<float> record(ctx, config, batch.size(), batch.tokens(), keep::backward);
///   forward(ctx, model, batch, {}, {.record = &record});
///   jacobian_vector_products(ctx, model, batch, d_inputs, d_hidden, {.record = &record});
///
/// Functions on views take the record of a forward pass and return an event; see context.hpp for errors. The model, the
/// batch and the record must live until it is complete.
#pragma once

#include <cstdint>
#include <nullscope/context.hpp>
#include <nullscope/operation.hpp>
#include <nullscope/tensor.hpp>
#include <nullscope/transformer.hpp>
#include <nullscope/view.hpp>
#include <span>
#include <sycl/sycl.hpp>

namespace nullscope {

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

/// The attention of every head of a model that reads one text, on the host: the raw weights, and what splits them into
/// effective and null attention: effective_attention.hpp for encoders, by rows for causal models
/// (effective_attention_by_rows.hpp).
///
///   const transformer<float> model = load_transformer<float>(ctx, folder);
///   const attention_parts<float> parts = read_attention_parts(ctx, model, {{101, 7592, 2088, 102}});
///   // parts.raw: (layers, heads, 4, 4); parts.rank[0]: of T of the first head of the first layer
///
/// For people who want to look at all heads at once, as `nullscope view` does. The S x S matrices of all heads are
/// kept: layers * heads * S^2 numbers, once for encoders and twice for causal models.
#pragma once

#include <cstdint>
#include <nullscope/context.hpp>
#include <nullscope/effective_attention.hpp>
#include <nullscope/transformer.hpp>
#include <vector>

namespace nullscope {

/// S tokens, c = min(S, d_v, d); the last dimension is fastest.
template <class T>
struct attention_parts {
  std::int64_t layers = 0, heads = 0, tokens = 0, columns = 0;  ///< columns = c
  std::vector<T> raw;                                           ///< (layers, heads, S, S): A
  std::vector<T> basis;            ///< (layers, heads, S, c): U, zeros from the rank on; A_perp = A U U^T for encoders
  std::vector<T> effective;        ///< (layers, heads, S, S): A_perp; only of causal models, where U does not give it
  std::vector<T> singular_values;  ///< (layers, heads, c): of T = V H
  std::vector<std::int64_t> rank;  ///< (layers, heads): of T; dim LN(T) = S - rank
  std::vector<double> entropy;     ///< (layers, heads): of the rows of A, mean, in nats
  std::vector<effective_attention_summary<T>> summary;  ///< (layers, heads)
};

/// Computes and waits. Throws invalid_argument (what token_batch refuses), computation_error with the ids of the heads
/// that hold NaN or infinity, layer by layer.
template <class T>
attention_parts<T> read_attention_parts(context& ctx, const transformer<T>& model,
                                        const token_batch::sequence& sequence);

}  // namespace nullscope

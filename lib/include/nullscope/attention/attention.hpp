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
/// seen through strides +1 along keys and -1 along queries (attention.hpp). A bias of -inf hides a key;
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
#include <nullscope/core/bfloat16.hpp>
#include <nullscope/core/context.hpp>
#include <nullscope/core/operation.hpp>
#include <nullscope/core/view.hpp>
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

// Gradients of attention: from d_out = dL / d out to d_q, d_k and d_v, without storing the matrix of weights.
//
//   q            (batch, heads, queries, dk)
//   k            (batch, heads, keys, dk)
//   v            (batch, heads, keys, dv)
//   out, d_out   (batch, heads, queries, dv)
//   log_sum_exp  (batch, heads, queries)
//   bias, d_bias (batch, heads, queries, keys), optional
//   d_q, d_k, d_v as q, k, v
//
// With A = softmax(scale q k^T + bias) and D = row sums of d_out * out:  d_v = A^T d_out,  G = A * (d_out v^T - D),
// d_q = scale G k,  d_k = scale G^T q,  d_bias = G.
//
// q, k, v, out, log_sum_exp and the options are those of `attention`. Any strides. Masked keys neither get nor give a
// gradient. With `causal`, NaN or infinity in a token also spreads to the gradients of some tokens that do not see it.
// Weights come from log_sum_exp: for scores of size x their relative error is about x eps. Sums are taken in an order
// that depends on shapes and device alone.
//
// Types: float, double, or bfloat16 q, k and v with everything else in float. Cost: 10 flops per query, key and
// column. Workspace: O((queries + keys) (dk + dv)) per head, and as much as the distinct numbers of d_bias.
//
// Overwrites the gradients. Throws invalid_argument (shapes, strides, null pointers) or unsupported_device (no 64-bit
// floating point; too little local memory); see context.hpp.

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

// The weights of attention, A = softmax(scale q k^T + bias), from the log_sum_exp that `attention` computed: tiles of
// A, and the attention that each key receives.
//
//   q (batch, heads, queries, dk), k (batch, heads, keys, dk), log_sum_exp (batch, heads, queries)
//
// Operands, masks and options must be those given to `attention`, so that log_sum_exp fits. Any strides. A query whose
// log_sum_exp is -inf sees nothing: its row of A is zero. Weights are the exponentials of score - log_sum_exp, whose
// relative error is eps: for scores of size x the relative error of a weight is about x eps.
//
// Overwrites the result. Throws invalid_argument (shapes, strides, null pointers, a tile outside of A) or
// unsupported_device (no 64-bit floating point); see context.hpp.

/// What the weights are computed from.
template <class T>
struct attention_scores {
  view<const T, 4> q, k;
  view<const attention_number<T>, 3> log_sum_exp;
  view<const attention_number<T>, 4> bias = {};  ///< (batch, heads, queries, keys), any strides; default: none
};

/// Which tile of A.
struct attention_tile_options {
  attention_options attention = {};
  std::int64_t first_query = 0, first_key = 0;
};

/// out (batch, heads, rows, columns) = A(..., first_query + i, first_key + j), zeros where masked. The extents of out
/// are the size of the tile: (batch, heads, queries, keys) with both firsts 0 is all of A. Cost: a product of matrices
/// and one more pass over out; fastest where the last stride of out is 1.
sycl::event attention_weights(context& ctx, const attention_scores<float>& scores, view<float, 4> out,
                              const attention_tile_options& options = {}, const events& dependencies = {});
sycl::event attention_weights(context& ctx, const attention_scores<double>& scores, view<double, 4> out,
                              const attention_tile_options& options = {}, const events& dependencies = {});

/// received (batch, heads, keys) = the column sums of A: the attention that each key receives from all queries. A is
/// not stored. Cost: 2 queries keys dk flops per head. Workspace: a copy of q and k.
sycl::event attention_received(context& ctx, const attention_scores<float>& scores, view<float, 3> received,
                               const attention_options& options = {}, const events& dependencies = {});
sycl::event attention_received(context& ctx, const attention_scores<double>& scores, view<double, 3> received,
                               const attention_options& options = {}, const events& dependencies = {});
sycl::event attention_received(context& ctx, const attention_scores<bfloat16>& scores, view<float, 3> received,
                               const attention_options& options = {}, const events& dependencies = {});

// The bias of attention by relative positions, as MPNet and T5 have it: one number per head and bucket of distances.
//
//   weights (buckets, heads)  ->  table (heads, 2 S - 1):  table[h, S - 1 + key - query] = weights[bucket, h]
//
// The table is a bias of attention without S x S numbers:
//
//   relative_bias(ctx, weights, table);
//   attention(ctx, {q, k, v, relative_bias_view(table, batch)}, {.out = out});
//
// Half of the buckets are for keys before the query or at it, half for keys after it. In each half, the first half of
// the buckets stand for one distance each; the others grow in size, and the last one has all distances from
// `options.distance` on.
//
// Throws invalid_argument (shapes, strides, null pointers; buckets that are odd, fewer than 4 or more than 256; a
// distance that is too small for them) or unsupported_device (no 64-bit floating point); see context.hpp.

struct relative_bias_options {
  std::int64_t distance = 128;  ///< from here on, all distances share a bucket; above buckets / 4
};

/// The bucket of key - query.
std::int64_t relative_bucket(std::int64_t key_minus_query, std::int64_t buckets, std::int64_t distance = 128);

/// Overwrites the table (heads, 2 S - 1).
sycl::event relative_bias(context& ctx, view<const float, 2> weights, view<float, 2> table,
                          const relative_bias_options& options = {}, const events& dependencies = {});
sycl::event relative_bias(context& ctx, view<const double, 2> weights, view<double, 2> table,
                          const relative_bias_options& options = {}, const events& dependencies = {});

/// Adds the gradient d_table (heads, 2 S - 1) to d_weights (buckets, heads), in a fixed order.
sycl::event relative_bias_backward(context& ctx, view<const float, 2> d_table, view<float, 2> d_weights,
                                   const relative_bias_options& options = {}, const events& dependencies = {});
sycl::event relative_bias_backward(context& ctx, view<const double, 2> d_table, view<double, 2> d_weights,
                                   const relative_bias_options& options = {}, const events& dependencies = {});

/// The table, or its gradient, as (batch, heads, S, S): the same for all sequences.
template <class T>
view<T, 4> relative_bias_view(const view<T, 2>& table, std::int64_t batch) {
  const std::int64_t tokens = (table.extent[1] + 1) / 2, step = table.stride[1];
  return {
      table.data + (tokens - 1) * step, {batch, table.extent[0], tokens, tokens}, {0, table.stride[0], -step, step}};
}

}  // namespace nullscope

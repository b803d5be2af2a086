/// The weights of attention, A = softmax(scale q k^T + bias), from the log_sum_exp that `attention` computed: tiles of
/// A, and the attention that each key receives.
///
///   q (batch, heads, queries, dk), k (batch, heads, keys, dk), log_sum_exp (batch, heads, queries)
///
/// Operands, masks and options must be those given to `attention`, so that log_sum_exp fits. Any strides. A query whose
/// log_sum_exp is -inf sees nothing: its row of A is zero. Weights are the exponentials of score - log_sum_exp, whose
/// relative error is eps: for scores of size x the relative error of a weight is about x eps.
///
/// Overwrites the result. Throws invalid_argument (shapes, strides, null pointers, a tile outside of A) or
/// unsupported_device (no 64-bit floating point); see context.hpp.
#pragma once

#include <cstdint>
#include <nullscope/attention.hpp>
#include <nullscope/bfloat16.hpp>
#include <nullscope/context.hpp>
#include <nullscope/operation.hpp>
#include <nullscope/view.hpp>
#include <sycl/sycl.hpp>

namespace nullscope {

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

}  // namespace nullscope

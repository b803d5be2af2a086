/// The weights of attention, A = softmax(scale q k^T), from the log_sum_exp that `attention` gave: tiles of A, and what
/// each key receives.
///
///   q (batch, heads, queries, dk), k (batch, heads, keys, dk), log_sum_exp (batch, heads, queries)
///
/// Operands, masks and options are those of `attention` and must be the same, for log_sum_exp to fit. Any strides. A
/// query whose log_sum_exp is -inf sees nothing, and has zeros in A. Deterministic. Weights are the exponentials of
/// score - log_sum_exp, which has a relative error of eps: for scores of size x they are right to about x eps.
///
/// Throws, before anything is launched: invalid_argument (shapes, strides, null pointers, a tile outside of A,
/// scratchpad), unsupported_device (no 64-bit floating point).
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

/// out (batch, heads, rows, columns) = A(..., first_query + i, first_key + j), zeros where masked. The extents of out
/// say how large the tile is: with those of A, and both firsts 0, it is all of A. T is float or double. Cost: a product
/// of matrices and one more pass over out; fastest where the last stride of out is 1.
template <class T>
sycl::event attention_weights(sycl::queue& queue, std::type_identity_t<view<const T, 4>> q,
                              std::type_identity_t<view<const T, 4>> k,
                              std::type_identity_t<view<const T, 3>> log_sum_exp, view<T, 4> out,
                              std::int64_t first_query = 0, std::int64_t first_key = 0,
                              const attention_options& options = {}, const std::vector<sycl::event>& dependencies = {});

/// Bytes that `attention_received` needs for these operands, a copy of q and k; only extents and strides matter.
template <class In>
std::int64_t attention_received_scratchpad_size(const sycl::queue& queue, view<const In, 4> q, view<const In, 4> k);

/// received (batch, heads, keys) = the column sums of A: the attention that each key receives from all queries. A is
/// not stored; cost 2 queries keys dk operations a head. In = T (float or double), or In = bfloat16 and T = float.
template <class In, class T>
sycl::event attention_received(sycl::queue& queue, view<const In, 4> q, view<const In, 4> k,
                               std::type_identity_t<view<const T, 3>> log_sum_exp, view<T, 3> received,
                               std::span<std::byte> scratchpad, const attention_options& options = {},
                               const std::vector<sycl::event>& dependencies = {});

}  // namespace nullscope

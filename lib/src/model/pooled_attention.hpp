/// Attention of one query per sequence, without keys and values of every token.
///
/// With one query, a score is q_h . (W_k,h x_j) = (W_k,h^T q_h) . x_j, and the output of a head is
/// sum_j a_hj W_v,h x_j = W_v,h sum_j a_hj x_j. So each head reaches for the tokens themselves with W_k,h^T q_h, and
/// projects their weighted sum: 4 d flops per token and head, instead of 2 d (d_k + d_v). The bias of the keys adds the
/// same number to all scores of a query, which softmax does not see.
#pragma once

#include <nullscope/core/operation.hpp>
#include <nullscope/model/transformer.hpp>

#include "lib/src/model/pass.hpp"
#include "lib/src/model/pass_plan.hpp"

namespace nullscope::detail {

/// From arrays.seen (batch * S, d) and arrays.query_input (batch, d) to arrays.attended.
template <class T>
void pooled_attention(const pass<T>& p, const planned_layer<T>& layer);

/// From d_attended (batch, heads, 1, d_v), whose stride of heads may be 0, to d_seen (batch * S, d), written, and d_q
/// (batch, h d_k). Gradients of the weights of keys and values are added.
template <class T>
void pooled_attention_backward(operation& op, const pass<T>& p, const planned_layer<T>& layer,
                               const layer_weights<T>& gradients, const view<const T, 4>& d_attended,
                               const view<T, 2>& d_seen, const view<T, 2>& d_q);

}  // namespace nullscope::detail

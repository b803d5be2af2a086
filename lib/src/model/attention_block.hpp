/// Attention as a block of a layer: from what it sees to what it adds to the residual.
#pragma once

#include <nullscope/model/transformer.hpp>

#include "lib/src/model/norm_block.hpp"
#include "lib/src/model/pass.hpp"
#include "lib/src/model/pass_plan.hpp"

namespace nullscope::detail {

/// Where the norm before a layer puts the biases of its q, k and v.
template <class T>
prepared_bias<T> prepared_bias_of(const transformer_config& config, const planned_layer<T>& layer);

/// arrays.attention_sum (query_rows, d) = merged W_o^T, after dropout, from arrays.seen (narrow: and query_input). The
/// norm adds the output's bias, see pass::bias_of_norm. `is_prepared`: q, k and v hold their biases already.
template <class T>
void attention_block(const pass<T>& p, const planned_layer<T>& layer, bool is_prepared);

template <class T>
struct attention_block_gradients {
  view<T, 2> d_seen;  ///< (rows, d): written, or added to if `adds`
  bool adds = false;
  view<T, 2> d_query_input = {};  ///< (query_rows, d), of a narrow layer: added to (post-LN), or written (pre-LN)
};

/// From the gradient d_sum (query_rows, d) of attention_sum. Gradients of parameters are added to `gradients` (absent:
/// not computed); that of the output's bias only where the product has added it.
template <class T>
void attention_block_backward(const pass<T>& p, const planned_layer<T>& layer, const layer_weights<T>& gradients,
                              const view<T, 2>& d_sum, const attention_block_gradients<T>& to);

}  // namespace nullscope::detail

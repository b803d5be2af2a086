/// Feed-forward as a block of a layer: from what it sees to what it adds to the residual.
#pragma once

#include <nullscope/model/transformer.hpp>

#include "lib/src/model/pass.hpp"
#include "lib/src/model/pass_plan.hpp"

namespace nullscope::detail {

/// arrays.feed_forward_sum (query_rows, d) = f(middle W_up^T + b) W_down^T, after dropout. The norm adds the second
/// bias, see pass::bias_of_norm. If that array is absent, only what the backward pass of the block reads is computed.
template <class T>
void feed_forward_block(const pass<T>& p, const planned_layer<T>& layer);

template <class T>
struct feed_forward_block_gradients {
  view<T, 2> d_middle;  ///< (query_rows, d): written, or added to if `adds`; may be d_sum
  bool adds = false;
  view<T, 1> d_down_bias;  ///< (d): added to; absent where the norm does it
};

/// From the gradient d_sum (query_rows, d) of the output. Gradients of the other parameters are added to `gradients`
/// (absent: not computed).
template <class T>
void feed_forward_block_backward(const pass<T>& p, const planned_layer<T>& layer, const layer_weights<T>& gradients,
                                 const view<T, 2>& d_sum, const feed_forward_block_gradients<T>& to);

}  // namespace nullscope::detail

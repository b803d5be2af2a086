/// The backward pass of one layer.
#pragma once

#include <nullscope/model/transformer.hpp>

#include "lib/src/model/pass.hpp"
#include "lib/src/model/pass_plan.hpp"

namespace nullscope::detail {

/// From d_output (query_rows, d), the gradient of the layer's output, to d_input (rows, d), the gradient of
/// arrays.input, which is overwritten. d_output is overwritten too. Gradients of parameters are added to `gradients`
/// (absent: not computed).
template <class T>
void layer_backward(const pass<T>& p, const planned_layer<T>& layer, const layer_weights<T>& gradients,
                    const view<T, 2>& d_output, const view<T, 2>& d_input);

}  // namespace nullscope::detail

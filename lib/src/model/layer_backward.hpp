/// The backward pass of one layer.
#pragma once

#include <nullscope/model/transformer.hpp>

#include "lib/src/model/layer_forward.hpp"

namespace nullscope::detail {

/// From d_output (query_rows, d), the gradient of the layer's output, to d_input (rows, d), the gradient of
/// record.input, which is overwritten. d_output is overwritten too. Gradients of parameters are added to `gradients`
/// (absent: not computed).
template <class T>
void layer_backward(const pass<T>& p, const layer_weights<const T>& weights, const layer_weights<T>& gradients,
                    const layer_shape& shape, std::int64_t layer, const layer_record<T>& record,
                    const view<T, 2>& d_output, const view<T, 2>& d_input);

}  // namespace nullscope::detail

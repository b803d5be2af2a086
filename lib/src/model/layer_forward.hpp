/// The forward pass of one layer, shared by `forward` and by `backward` where it computes a layer again.
#pragma once

#include <nullscope/model/transformer.hpp>

#include "lib/src/model/norm_block.hpp"
#include "lib/src/model/pass.hpp"
#include "lib/src/model/pass_plan.hpp"

namespace nullscope::detail {

/// From arrays.input to the next hidden state in `output` (query_rows, d). `is_prepared`: the norm before this layer
/// has put the biases of q, k and v where they belong. The last norm of this one does so for the `next` layer.
template <class T>
void post_norm_layer(const pass<T>& p, const planned_layer<T>& layer, bool is_prepared, const view<T, 2>& output,
                     const prepared_bias<T>& next);

/// From `entering`, which the first norm adds up into arrays.input, to the sum that leaves the layer.
template <class T>
pending_sum<T> pre_norm_layer(const pass<T>& p, const planned_layer<T>& layer, const pending_sum<T>& entering);

}  // namespace nullscope::detail

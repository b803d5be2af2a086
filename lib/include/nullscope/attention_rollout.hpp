/// Attention rollout (Abnar and Zuidema 2020): attention multiplied through the layers, the usual baseline beside an
/// attribution. Layer by layer:
///
///   R_l = M_l R_(l-1),  M_l = (1 - r) mean_h |A_lh| with rows normalised to 1 + r I,  R_0 = I
///
/// where r stands for the residual connection. With raw attention this is the published formula, as rows of A are
/// positive and sum to 1. Effective attention may be negative: its size counts. Rows of R sum to 1; a row of A without
/// weight passes its token on.
///
/// Overwrites the result. Throws invalid_argument (shapes, strides, null pointers, a residual that is not from 0 to 1)
/// or unsupported_device (double without fp64); see context.hpp.
#pragma once

#include <nullscope/context.hpp>
#include <nullscope/operation.hpp>
#include <nullscope/view.hpp>

namespace nullscope {

template <class T>
struct rollout_operands {
  view<const T, 3> attention;   ///< (heads, S, S): of one layer, raw or effective
  view<const T, 2> below = {};  ///< (S, S): R of the layer below; default: the identity
};

struct rollout_options {
  double residual = 0.5;  ///< r
};

/// out (S, S) = R of this layer; must not overlap `below`. Cost: 2 S^3 flops. Workspace: S^2 numbers.
sycl::event attention_rollout(context& ctx, const rollout_operands<float>& operands, view<float, 2> out,
                              const rollout_options& options = {}, const events& dependencies = {});
sycl::event attention_rollout(context& ctx, const rollout_operands<double>& operands, view<double, 2> out,
                              const rollout_options& options = {}, const events& dependencies = {});

}  // namespace nullscope

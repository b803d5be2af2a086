/// Products of tangents with weights and merged Jacobians, with factors rounded to bfloat16 where that is asked for.
#pragma once

#include <nullscope/core/bfloat16.hpp>
#include <nullscope/core/operation.hpp>
#include <nullscope/core/view.hpp>
#include <nullscope/linalg/gemm.hpp>
#include <nullscope/linalg/rows.hpp>
#include <type_traits>

namespace nullscope::detail {

/// What follows attention in a layer as one matrix per token, transposed (batch * tokens, d, d): in T, or rounded. Both
/// are absent where a layer stays as it is.
template <class T>
struct layer_jacobians {
  view<T, 3> values = {};
  view<bfloat16, 3> rounded = {};

  bool is_absent() const { return values.is_absent() && rounded.is_absent(); }

  /// Those of `count` tokens, from `first` on.
  layer_jacobians tokens(std::int64_t first, std::int64_t count) const {
    if (!values.is_absent()) return {slice(values, 0, first, count), {}};
    return {{}, slice(rounded, 0, first, count)};
  }
};

/// x, rounded, in the workspace of `op`.
inline view<const bfloat16, 3> take_rounded(operation& op, const view<const float, 3>& x) {
  const auto result = op.take_array<bfloat16>(x.extent[0], x.extent[1], x.extent[2]);
  copy(op.ctx(), x, result);
  return result;
}

/// y (batch, rows, out) = x w^T + beta y for x (batch, rows, in) and the weights w (out, in), both rounded or not.
template <class T>
void weight_product(context& ctx, bool rounded, const view<const T, 3>& x, const view<const T, 2>& w,
                    const view<T, 3>& y, double beta = 0) {
  if constexpr (std::is_same_v<T, float>) {
    if (rounded) {
      operation op(ctx, "rounded_product");
      gemm(ctx, {take_rounded(op, x), transposed(take_rounded(op, w))}, y, {.beta = beta});
      op.submit();
      return;
    }
  }
  gemm(ctx, {x, transposed(w)}, y, {.beta = beta});
}

/// y (tokens, slots, d) = x (tokens, slots, d) times the matrix of each token.
template <class T>
void jacobian_product(context& ctx, const view<const T, 3>& x, const layer_jacobians<T>& jacobians,
                      const view<T, 3>& y) {
  if constexpr (std::is_same_v<T, float>) {
    if (!jacobians.rounded.is_absent()) {
      operation op(ctx, "rounded_product");
      gemm(ctx, {take_rounded(op, x), jacobians.rounded}, y);
      op.submit();
      return;
    }
  }
  gemm(ctx, {x, jacobians.values}, y);
}

}  // namespace nullscope::detail

/// What gemm hands to the kernels and libraries that it chooses from.
#pragma once

#include <nullscope/core/bfloat16.hpp>
#include <nullscope/core/view.hpp>

namespace nullscope::detail {

/// The operands of one call: c = alpha a b + beta c.
template <class In, class T>
struct gemm_call {
  T alpha;
  view<const In, 3> a, b;
  T beta;
  view<T, 3> c;
};

/// The same call for c^T = b^T a^T.
template <class In, class T>
gemm_call<In, T> transposed(const gemm_call<In, T>& call) {
  return {call.alpha, nullscope::transposed(call.b), nullscope::transposed(call.a), call.beta,
          nullscope::transposed(call.c)};
}

}  // namespace nullscope::detail

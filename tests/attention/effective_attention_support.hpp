/// Effective attention of host data, for its tests.
#pragma once

#include <nullscope/attention/effective_attention.hpp>

#include "tests/attention/effective_attention_reference.hpp"

namespace nullscope::test {

class effective_attention_test : public device_test {};

template <class T>
effective_attention_tensors<T> compute(context& ctx, const head_data<T>& data, const head_shape& s) {
  effective_attention_tensor_options<T> options;
  options.causal = s.causal;
  const tensor<T> q(ctx, {s.heads, s.queries, s.dk}, data.q), k(ctx, {s.heads, s.keys, s.dk}, data.k),
      v(ctx, {s.heads, s.keys, s.dv}, data.v);
  return effective_attention(ctx, q, k, v, s.d == 0 ? tensor<T>() : tensor<T>(ctx, {s.heads, s.dv, s.d}, data.h),
                             options);
}

}  // namespace nullscope::test

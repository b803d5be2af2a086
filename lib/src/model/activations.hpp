/// From the public enumeration of activation functions to the kernels' template argument.
#pragma once

#include <nullscope/model/layers.hpp>

#include "kernels/model/activation.hpp"

namespace nullscope::detail {

/// Calls call.operator()<Kind>() with the kernels' name of the function.
template <class Call>
auto with_activation(activation function, Call call) {
  using kernels::activation_kind;
  switch (function) {
    case activation::none: return call.template operator()<activation_kind::none>();
    case activation::relu: return call.template operator()<activation_kind::relu>();
    case activation::gelu: return call.template operator()<activation_kind::gelu>();
    case activation::gelu_tanh: return call.template operator()<activation_kind::gelu_tanh>();
    case activation::tanh: break;
  }
  return call.template operator()<activation_kind::tanh>();
}

}  // namespace nullscope::detail

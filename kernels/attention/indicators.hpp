/// Classes of tokens as vectors of zeros and ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nullscope/core/view.hpp>
#include <sycl/sycl.hpp>

namespace nullscope::kernels {

/// out (classes, tokens) = 1 where a token is of that class, otherwise 0. One work-item per token.
template <class T>
struct class_indicators {
  static constexpr const char* source = __FILE__;

  view<const std::int32_t, 1> classes;  // (tokens)
  view<T, 2> out;

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    const auto token = static_cast<std::int64_t>(item.get_global_linear_id());
    if (token >= out.extent[1]) return;
    for (std::int64_t i = 0; i < out.extent[0]; ++i) out(i, token) = classes(token) == i ? T(1) : T(0);
  }
};

}  // namespace nullscope::kernels

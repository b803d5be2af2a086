/// The logits of attention weights, up to a constant per row, which softmax does not see.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nullscope/core/view.hpp>
#include <sycl/sycl.hpp>

namespace nullscope::kernels {

/// logits (batch, rows, S) = log(a) - log(first entry of the row). One work-item per entry.
template <class T>
struct logits_of_rows {
  static constexpr const char* source = __FILE__;

  view<const T, 3> a;
  view<T, 3> logits;

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    const std::int64_t tokens = a.extent[2], entry = item.get_global_linear_id();
    if (entry >= logits.size()) return;
    const std::int64_t j = entry % tokens, i = entry / tokens % a.extent[1], matrix = entry / tokens / a.extent[1];
    logits(matrix, i, j) = sycl::log(a(matrix, i, j)) - sycl::log(a(matrix, i, 0));
  }
};

}  // namespace nullscope::kernels

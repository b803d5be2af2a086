/// Numerical ranks from singular values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <nullscope/core/view.hpp>
#include <sycl/sycl.hpp>

namespace nullscope::kernels {

/// rank (batch): how many of s (batch, values), descending, exceed max(relative * s(b, 0), absolute); -1 where that
/// is not known. One work-item per matrix.
template <class T>
struct svd_rank {
  static constexpr const char* source = __FILE__;

  view<const T, 2> s;
  view<const std::int32_t, 1> status;  // of svd; absent: all converged
  view<std::int64_t, 1> rank;
  T relative, absolute;

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    const std::int64_t b = static_cast<std::int64_t>(item.get_global_linear_id());
    if (b >= s.extent[0]) return;
    const bool is_known = s(b, 0) <= std::numeric_limits<T>::max() && (status.data == nullptr || status(b) == 0);
    const T scaled = relative * s(b, 0);
    const T threshold = scaled > absolute ? scaled : absolute;
    std::int64_t count = 0;
    while (count < s.extent[1] && s(b, count) > threshold) ++count;
    rank(b) = is_known ? count : -1;
  }
};

}  // namespace nullscope::kernels

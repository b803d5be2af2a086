/// A kernel that does next to nothing, to measure what a launch costs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <sycl/sycl.hpp>

namespace nullscope::kernels {

/// Adds 1 to *launches, for one work-item on an in-order queue: so that it can be seen how often the kernel ran.
struct count_launches {
  static constexpr const char* source = __FILE__;

  std::int64_t* launches;

  void operator()(sycl::nd_item<1>, std::byte*) const { ++*launches; }
};

}  // namespace nullscope::kernels

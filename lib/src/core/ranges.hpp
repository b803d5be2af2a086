/// Arithmetic of launch ranges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <sycl/sycl.hpp>

namespace nullscope::detail {

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// `groups` work-groups of `items` work-items.
inline sycl::nd_range<1> groups_of(std::int64_t groups, std::int64_t items) {
  return {sycl::range<1>(static_cast<std::size_t>(groups * items)), sycl::range<1>(static_cast<std::size_t>(items))};
}

}  // namespace nullscope::detail

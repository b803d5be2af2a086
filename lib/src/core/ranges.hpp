/// Arithmetic of launch ranges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <sycl/sycl.hpp>

namespace nullscope::detail {

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// The length of a row, rounded up to whole steps of any layout and type, so that loops over a row have no rest.
constexpr std::int64_t padded_row(std::int64_t length) {
  constexpr std::int64_t widest_step = 32;
  return ceil_div(length, widest_step) * widest_step;
}

/// `groups` work-groups of `items` work-items.
inline sycl::nd_range<1> groups_of(std::int64_t groups, std::int64_t items) {
  return {sycl::range<1>(static_cast<std::size_t>(groups * items)), sycl::range<1>(static_cast<std::size_t>(items))};
}

}  // namespace nullscope::detail

/// How the functions of the null-space toolkit cut up their scratchpads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nullscope/view.hpp>
#include <span>
#include <sycl/sycl.hpp>

namespace nullscope::detail {

/// Hands out pieces of a scratchpad; with no memory behind it, it only counts bytes.
class scratch_cutter {
 public:
  explicit scratch_cutter(std::byte* memory) : memory_(memory) {}

  /// A densely packed array in the next piece, a cache line aligned relative to the scratchpad.
  template <class T, class... Extent>
  auto array(Extent... extents) {
    auto result = contiguous<T>(nullptr, extents...);
    result.data = reinterpret_cast<T*>(take(result.size() * static_cast<std::int64_t>(sizeof(T))));
    return result;
  }

  std::span<std::byte> bytes(std::int64_t count) { return {take(count), static_cast<std::size_t>(count)}; }

  std::int64_t used() const { return used_; }

 private:
  std::byte* take(std::int64_t count) {
    std::byte* result = memory_ == nullptr ? nullptr : memory_ + used_;
    used_ += (count + 63) / 64 * 64;
    return result;
  }

  std::byte* memory_;
  std::int64_t used_ = 0;
};

/// As many work-groups of this size as `count` work-items need.
inline sycl::nd_range<1> rounded_range(std::int64_t count, std::int64_t group) {
  return {static_cast<std::size_t>((count + group - 1) / group * group), static_cast<std::size_t>(group)};
}

}  // namespace nullscope::detail

/// How the functions of the library cut up the scratchpad that a caller gives them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nullscope/view.hpp>
#include <span>

namespace nullscope::detail {

/// Cuts a scratchpad into parts that each begin at a cache line, wherever the scratchpad itself begins. With no memory
/// behind it, it only counts the bytes; all pointers are null then.
class scratchpad_parts {
 public:
  static constexpr std::int64_t alignment = 64;  // bytes, of each part

  explicit scratchpad_parts(std::byte* memory = nullptr)
      : memory_(memory),
        begin_(static_cast<std::int64_t>(-reinterpret_cast<std::uintptr_t>(memory) & (alignment - 1))) {}

  template <class T>
  T* take(std::int64_t count) {
    std::byte* const part = memory_ == nullptr ? nullptr : memory_ + begin_ + used_;
    used_ += rounded(count * static_cast<std::int64_t>(sizeof(T)));
    return reinterpret_cast<T*>(part);
  }

  /// A densely packed array.
  template <class T, class... Extent>
  auto take_array(Extent... extents) {
    auto result = contiguous<T>(nullptr, extents...);
    result.data = take<T>(result.size());
    return result;
  }

  /// The scratchpad of another function.
  std::span<std::byte> take_bytes(std::int64_t count) {
    return {take<std::byte>(count), static_cast<std::size_t>(count)};
  }

  /// Of all parts so far, wherever the scratchpad begins.
  std::int64_t bytes() const { return used_ == 0 ? 0 : used_ + alignment; }

  static constexpr std::int64_t rounded(std::int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

 private:
  std::byte* memory_;
  std::int64_t begin_, used_ = 0;
};

}  // namespace nullscope::detail

/// What the strides of an operand allow a kernel to do.
#pragma once

#include <cstdint>
#include <nullscope/core/view.hpp>

namespace nullscope::detail {

/// The last stride is 1, or does not matter.
template <class T, int Rank>
bool has_neighbours(const view<T, Rank>& x) {
  return x.stride[Rank - 1] == 1 || x.extent[Rank - 1] <= 1;
}

/// The bytes of `out` if they can be written past the caches: every row begins at a cache line, and no input is
/// overwritten, as it would still be in the caches. Otherwise 0.
template <class T, int Rank, class... Inputs>
std::int64_t streamable_bytes(const view<T, Rank>& out, const Inputs&... inputs) {
  constexpr std::int64_t line = 64, bytes = sizeof(T);
  bool is_aligned = reinterpret_cast<std::uintptr_t>(out.data) % line == 0;
  for (int d = 0; d < Rank - 1; ++d) is_aligned &= out.extent[d] == 1 || out.stride[d] * bytes % line == 0;
  const bool is_input = ((static_cast<const void*>(inputs.data) == out.data) || ...);
  return is_aligned && !is_input ? out.size() * bytes : 0;
}

}  // namespace nullscope::detail

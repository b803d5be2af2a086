/// A 16-bit float with the exponent of a 32-bit one, for storage: arithmetic is done in float. Kernels use this header
/// too.
#pragma once

#include <bit>
#include <cstdint>

namespace nullscope {

struct bfloat16 {
  std::uint16_t bits;

  bfloat16() = default;

  /// Rounds to nearest, ties to even; NaN stays NaN.
  constexpr explicit bfloat16(float value) : bits(0) {
    const std::uint32_t word = std::bit_cast<std::uint32_t>(value);
    const bool is_nan = (word & 0x7fffffffu) > 0x7f800000u;
    const std::uint32_t rounded = word + 0x7fffu + ((word >> 16) & 1u);
    bits = static_cast<std::uint16_t>(is_nan ? (word >> 16) | 0x40u : rounded >> 16);
  }

  constexpr operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

static_assert(sizeof(bfloat16) == 2);

}  // namespace nullscope

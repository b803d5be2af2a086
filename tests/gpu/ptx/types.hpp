/// The types of PTX, and 16-bit floating point as arithmetic on bits.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>

namespace nullscope::ptx {

/// What is wrong with a program, or with how it runs.
struct failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class type {
  pred,
  b8,
  b16,
  b32,
  b64,
  u8,
  u16,
  u32,
  u64,
  s8,
  s16,
  s32,
  s64,
  f16,
  bf16,
  f16x2,
  bf16x2,
  f32,
  f64,
  tf32
};

inline bool parse_type(std::string_view text, type& result) {
  constexpr std::string_view names[] = {"pred", "b8",  "b16", "b32", "b64",  "u8",    "u16",    "u32", "u64", "s8",
                                        "s16",  "s32", "s64", "f16", "bf16", "f16x2", "bf16x2", "f32", "f64", "tf32"};
  for (int i = 0; i < static_cast<int>(std::size(names)); ++i) {
    if (names[i] != text) continue;
    result = static_cast<type>(i);
    return true;
  }
  return false;
}

constexpr int bytes_of(type t) {
  switch (t) {
    case type::pred: return 4;  // a row of predicates is a word with a bit per lane
    case type::b8:
    case type::u8:
    case type::s8: return 1;
    case type::b16:
    case type::u16:
    case type::s16:
    case type::f16:
    case type::bf16: return 2;
    case type::b64:
    case type::u64:
    case type::s64:
    case type::f64: return 8;
    default: return 4;
  }
}

constexpr bool is_signed(type t) { return t == type::s8 || t == type::s16 || t == type::s32 || t == type::s64; }
constexpr bool is_floating(type t) { return t >= type::f16; }

/// How a result becomes a number of its type.
enum class rounding { nearest, zero, down, up };

inline float bfloat16_to_float(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

/// A float cut to its upper `32 - Dropped` bits. NaN stays NaN.
template <int Dropped>
std::uint32_t cut_float(float x, rounding how) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if (std::isnan(x)) return 0x7fff'ffffu >> Dropped;
  constexpr std::uint32_t half = 1u << (Dropped - 1);
  const std::uint32_t odd = (bits >> Dropped) & 1;
  return (how == rounding::nearest ? bits + (half - 1 + odd) : bits) >> Dropped;
}
inline std::uint16_t float_to_bfloat16(float x, rounding how = rounding::nearest) {
  return static_cast<std::uint16_t>(cut_float<16>(x, how));
}

/// Rounded once: a float that is not x keeps a bit that says so.
inline std::uint16_t double_to_bfloat16(double x) {
  auto rounded = static_cast<float>(x);
  if (!std::isfinite(rounded) || rounded == x) return float_to_bfloat16(rounded);
  if (std::abs(static_cast<double>(rounded)) > std::abs(x)) rounded = std::nextafter(rounded, 0.0f);
  return float_to_bfloat16(std::bit_cast<float>(std::bit_cast<std::uint32_t>(rounded) | 1));
}

inline float half_to_float(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const float size = exponent == 31  ? (fraction != 0 ? std::numeric_limits<float>::quiet_NaN()
                                                      : std::numeric_limits<float>::infinity())
                     : exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                     : std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  return (bits & 0x8000) != 0 ? -size : size;
}

inline std::uint16_t double_to_half(double x, rounding how = rounding::nearest) {
  const std::uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  const double size = std::abs(x);
  if (std::isnan(x)) return 0x7fff;
  if (std::isinf(x)) return static_cast<std::uint16_t>(sign | 0x7c00);
  const int exponent = size < 0x1p-14 ? -14 : std::ilogb(size);
  const double steps = std::ldexp(size, 10 - exponent);  // of the last bit
  const double whole = how == rounding::nearest ? std::nearbyint(steps) : std::trunc(steps);
  const double rounded = std::ldexp(whole, exponent - 10);
  if (rounded > 65504) return static_cast<std::uint16_t>(sign | (how == rounding::nearest ? 0x7c00 : 0x7bff));
  // A fraction that was rounded up to 2048 carries into the exponent by itself.
  return static_cast<std::uint16_t>(sign | (static_cast<int>(whole) + (exponent + 14) * 1024));
}

}  // namespace nullscope::ptx

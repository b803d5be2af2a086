/// Uniform and normal numbers from the bits of Philox, the same on every device: only integer arithmetic, exact
/// conversions and explicit fma are used. Library functions, and on some devices even division and square root, differ
/// in the last bits, so the normal distribution has short polynomials and Newton iterations of its own.
#pragma once

#include <bit>
#include <cstdint>
#include <sycl/sycl.hpp>
#include <type_traits>

#include "philox.hpp"

namespace nullscope::kernels {

/// Numbers that one block of 128 bits gives: four floats or two doubles.
template <class T>
inline constexpr int numbers_per_block = sizeof(T) == 4 ? 4 : 2;

template <class T>
using bits_of = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

/// Number `i` of a block, uniform in (0, 1): the middle of one of 2^23 (float) or 2^52 (double) equal steps, exactly.
template <class T>
T unit_uniform(const philox_block& block, int i) {
  if constexpr (sizeof(T) == 4) {
    return sycl::fma(static_cast<float>(block.word[i] >> 9), 0x1p-23f, 0x1p-24f);
  } else {
    const std::uint64_t bits = (std::uint64_t{block.word[2 * i + 1]} << 32) | block.word[2 * i];
    return sycl::fma(static_cast<double>(bits >> 12), 0x1p-52, 0x1p-53);
  }
}

/// 1 / x for x in [1.7, 2.5]: Newton from the tangent at 2, whose error of 0.05 is squared each time.
template <class T>
T reciprocal_near_two(T x) {
  T r = sycl::fma(T(-0.25), x, T(1));
  for (int i = 0; i < (sizeof(T) == 4 ? 3 : 4); ++i) r = sycl::fma(r, sycl::fma(-x, r, T(1)), r);
  return r;
}

/// ln x for a normal x in (0, 1): x = 2^e m with m in [sqrt(1/2), sqrt(2)), ln m = 2 artanh(s) with s = (m - 1) / (m +
/// 1).
template <class T>
T portable_log(T x) {
  using bits = bits_of<T>;
  constexpr int mantissa_bits = sizeof(T) == 4 ? 23 : 52;
  constexpr bits lowest = std::bit_cast<bits>(static_cast<T>(0.70710678118654752));
  const bits steps = std::bit_cast<bits>(T(1)) - lowest + std::bit_cast<bits>(x);
  const int exponent = static_cast<int>(steps >> mantissa_bits) - (sizeof(T) == 4 ? 127 : 1023);
  const T m = std::bit_cast<T>(std::bit_cast<bits>(x) - (static_cast<bits>(exponent) << mantissa_bits));
  const T s = (m - T(1)) * reciprocal_near_two(m + T(1));
  const T s2 = s * s;
  constexpr int terms = sizeof(T) == 4 ? 5 : 11;  // |s| < 0.172: what is left out is below the last bit
  T series = T(2) / T(2 * terms + 1);
#pragma unroll
  for (int k = terms - 1; k >= 1; --k) series = sycl::fma(series, s2, T(2) / T(2 * k + 1));
  const T ln_m = sycl::fma(series * s2, s, T(2) * s);
  return sycl::fma(static_cast<T>(exponent), static_cast<T>(0.69314718055994531), ln_m);
}

/// sqrt(x) for a normal x: Newton for 1 / sqrt(x) from a guess by its exponent, whose error of 0.035 is squared each
/// time.
template <class T>
T portable_sqrt(T x) {
  constexpr bits_of<T> magic = sizeof(T) == 4 ? 0x5f3759dfu : bits_of<T>(0x5fe6eb50c7b537a9ull);
  T r = std::bit_cast<T>(magic - (std::bit_cast<bits_of<T>>(x) >> 1));
  for (int i = 0; i < (sizeof(T) == 4 ? 3 : 4); ++i) r = sycl::fma(r * T(0.5), sycl::fma(-(x * r), r, T(1)), r);
  return x * r;
}

template <class T>
struct sine_cosine {
  T sine, cosine;
};

/// sin and cos of 2 pi u for u in (0, 1): the quarter turns are exact, Taylor series cover the eighth that is left.
template <class T>
sine_cosine<T> sine_cosine_of_turns(T u) {
  const int quarter = static_cast<int>(sycl::fma(u, T(4), T(0.5)));
  const T x = sycl::fma(u, T(4), static_cast<T>(-quarter)) * static_cast<T>(1.57079632679489662);
  const T x2 = x * x;
  constexpr int terms = sizeof(T) == 4 ? 5 : 9;
  T s = T(1), c = T(1);  // Horner: 1 - x^2 / (2 * 3) (1 - x^2 / (4 * 5) (...)), and likewise for the cosine
#pragma unroll
  for (int k = terms; k >= 1; --k) {
    s = sycl::fma(s * x2, T(-1) / T(2 * k * (2 * k + 1)), T(1));
    c = sycl::fma(c * x2, T(-1) / T(2 * k * (2 * k - 1)), T(1));
  }
  s *= x;
  switch (quarter & 3) {
    case 0: return {s, c};
    case 1: return {c, -s};
    case 2: return {-s, -c};
    default: return {-c, s};
  }
}

/// Number `i` of a block, from the standard normal distribution (Box and Muller: two uniform numbers give two normal
/// ones).
template <class T>
T standard_normal(const philox_block& block, int i) {
  const T radius = portable_sqrt(T(-2) * portable_log(unit_uniform<T>(block, i & ~1)));
  const sine_cosine<T> angle = sine_cosine_of_turns(unit_uniform<T>(block, i | 1));
  return radius * (i & 1 ? angle.sine : angle.cosine);
}

}  // namespace nullscope::kernels

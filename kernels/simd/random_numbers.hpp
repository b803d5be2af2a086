/// Uniform and normal numbers from the bits of Philox, the same on every device and for every number of lanes: only
/// integer arithmetic, exact conversions, and products and sums that are rounded once are used. Library functions, and
/// on some devices even division and square root, differ in the last bits, so the normal distribution has short
/// polynomials and Newton iterations of its own.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "kernels/simd/philox.hpp"

namespace nullscope::kernels {

/// Numbers that one block of 128 bits gives: four floats or two doubles.
template <class T>
inline constexpr int numbers_per_block = sizeof(T) == 4 ? 4 : 2;

namespace detail {

template <class T>
using bits_of = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

template <class T, int W>
using bit_lanes = lanes_t<bits_of<T>, W>;

template <class T>
inline constexpr int mantissa_bits = sizeof(T) == 4 ? 23 : 52;

template <class T, int W>
bit_lanes<T, W> bits_in(pack<T, W> x) {
  return std::bit_cast<bit_lanes<T, W>>(x.lanes);
}

template <class T, int W>
pack<T, W> from_bits(bit_lanes<T, W> bits) {
  return pack<T, W>::from(std::bit_cast<lanes_t<T, W>>(bits));
}

/// An integer below 2^mantissa_bits as a number, exactly: in the place of the mantissa of 2^mantissa_bits. (CPUs do not
/// convert vectors of long integers.)
template <class T, int W>
pack<T, W> number_from(bit_lanes<T, W> integer) {
  constexpr T power = sizeof(T) == 4 ? T(0x1p23) : T(0x1p52);
  return from_bits<T, W>(integer | std::bit_cast<bits_of<T>>(power)) - pack<T, W>(power);
}

}  // namespace detail

/// Number `i` of each block, uniform in (0, 1): the middle of one of 2^23 (float) or 2^52 (double) equal steps,
/// exactly.
template <class T, int W>
pack<T, W> unit_uniform(const philox_blocks<W>& blocks, int i) {
  if constexpr (sizeof(T) == 4) {
    const auto word = convert<std::uint32_t>(pack<std::uint64_t, W>::from(blocks.word[i] >> 9));
    return fma_once(detail::number_from<T, W>(word.lanes), pack<T, W>(T(0x1p-23)), pack<T, W>(T(0x1p-24)));
  } else {
    const philox_word<W> bits = (blocks.word[2 * i + 1] << 32) | blocks.word[2 * i];
    return fma_once(detail::number_from<T, W>(bits >> 12), pack<T, W>(T(0x1p-52)), pack<T, W>(T(0x1p-53)));
  }
}

/// 1 / x for x in [1.7, 2.5]: Newton from the tangent at 2, whose error of 0.05 is squared each time.
template <class T, int W>
pack<T, W> reciprocal_near_two(pack<T, W> x) {
  using number = pack<T, W>;
  number r = fma_once(number(T(-0.25)), x, number(T(1)));
  for (int i = 0; i < (sizeof(T) == 4 ? 3 : 4); ++i) r = fma_once(r, fma_once(-x, r, number(T(1))), r);
  return r;
}

/// ln x for a normal x in (0, 1): x = 2^e m with m in [sqrt(1/2), sqrt(2)), ln m = 2 artanh(s) with s = (m - 1) / (m +
/// 1).
template <class T, int W>
pack<T, W> portable_log(pack<T, W> x) {
  using number = pack<T, W>;
  using bits = detail::bits_of<T>;
  constexpr int mantissa_bits = detail::mantissa_bits<T>;
  constexpr bits bias = sizeof(T) == 4 ? 127 : 1023;
  constexpr bits lowest = std::bit_cast<bits>(static_cast<T>(0.70710678118654752));
  const auto exponent = (detail::bits_in(x) + (std::bit_cast<bits>(T(1)) - lowest)) >> mantissa_bits;  // e + bias
  const number e = detail::number_from<T, W>(exponent) - number(static_cast<T>(bias));
  const number m = detail::from_bits<T, W>(detail::bits_in(x) - ((exponent - bias) << mantissa_bits));
  const number s = (m - number(T(1))) * reciprocal_near_two(m + number(T(1)));
  const number s2 = s * s;
  constexpr int terms = sizeof(T) == 4 ? 5 : 11;  // |s| < 0.172: what is left out is below the last bit
  number series(T(2) / T(2 * terms + 1));
#pragma unroll
  for (int k = terms - 1; k >= 1; --k) series = fma_once(series, s2, number(T(2) / T(2 * k + 1)));
  const number ln_m = fma_once(series * s2, s, s + s);
  return fma_once(e, number(static_cast<T>(0.69314718055994531)), ln_m);
}

/// sqrt(x) for a normal x: Newton for 1 / sqrt(x) from a guess by its exponent, whose error of 0.035 is squared each
/// time.
template <class T, int W>
pack<T, W> portable_sqrt(pack<T, W> x) {
  using number = pack<T, W>;
  using bits = detail::bits_of<T>;
  constexpr bits magic = sizeof(T) == 4 ? bits(0x5f3759df) : bits(0x5fe6eb50c7b537a9);
  number r = detail::from_bits<T, W>(magic - (detail::bits_in(x) >> 1));
  for (int i = 0; i < (sizeof(T) == 4 ? 3 : 4); ++i) {
    r = fma_once(r * number(T(0.5)), fma_once(-(x * r), r, number(T(1))), r);
  }
  return x * r;
}

template <class Pack>
struct sine_cosine {
  Pack sine, cosine;
};

/// sin and cos of 2 pi u for u in (0, 1): the quarter turns are exact, Taylor series cover the eighth that is left.
template <class T, int W>
sine_cosine<pack<T, W>> sine_cosine_of_turns(pack<T, W> u) {
  using number = pack<T, W>;
  using bits = detail::bits_of<T>;
  constexpr T shift = sizeof(T) == 4 ? T(0x1.8p23) : T(0x1.8p52);  // adding it rounds, into the low bits
  const number shifted = fma_once(u, number(T(4)), number(shift));
  const number x = fma_once(u, number(T(4)), number(shift) - shifted) * number(static_cast<T>(1.57079632679489662));
  const number x2 = x * x;
  constexpr int terms = sizeof(T) == 4 ? 5 : 9;
  number s(T(1)), c(T(1));  // Horner: 1 - x^2 / (2 * 3) (1 - x^2 / (4 * 5) (...)), and likewise for the cosine
#pragma unroll
  for (int k = terms; k >= 1; --k) {
    s = fma_once(s * x2, number(T(-1) / T(2 * k * (2 * k + 1))), number(T(1)));
    c = fma_once(c * x2, number(T(-1) / T(2 * k * (2 * k - 1))), number(T(1)));
  }
  s *= x;
  // After q quarters: (s, c), (c, -s), (-s, -c), (-c, s). Bit 1 of q, and of q + 1, become signs.
  const auto q = detail::bits_in(shifted);
  constexpr int to_sign = 8 * sizeof(T) - 2;
  constexpr bits sign = bits(1) << (to_sign + 1);
  const auto is_even = (q & bits(1)) == bits(0);
  const auto with_sign = [&](auto lanes, auto turns) {
    return detail::from_bits<T, W>(std::bit_cast<detail::bit_lanes<T, W>>(lanes) ^ ((turns << to_sign) & sign));
  };
  return {with_sign(is_even ? s.lanes : c.lanes, q), with_sign(is_even ? c.lanes : s.lanes, q + bits(1))};
}

/// z[i] = number i of each of the blocks `first` and on: uniform in (0, 1), or from the standard normal distribution
/// (Box and Muller: two uniform numbers give two normal ones).
template <bool Normal, class T, int W>
void numbers_of_blocks(std::uint64_t seed, std::uint64_t stream, std::uint64_t first,
                       pack<T, W> (&z)[numbers_per_block<T>]) {
  const philox_blocks<W> blocks = philox<W>(seed, stream, first);
#pragma unroll
  for (int i = 0; i < numbers_per_block<T>; i += 2) {
    const pack<T, W> u = unit_uniform<T>(blocks, i), v = unit_uniform<T>(blocks, i + 1);
    if constexpr (Normal) {
      const pack<T, W> radius = portable_sqrt(pack<T, W>(T(-2)) * portable_log(u));
      const auto [sine, cosine] = sine_cosine_of_turns(v);
      z[i] = radius * cosine;
      z[i + 1] = radius * sine;
    } else {
      z[i] = u;
      z[i + 1] = v;
    }
  }
}

}  // namespace nullscope::kernels

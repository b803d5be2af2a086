/// The exponential of attention: powers of two, since the factor log2(e) can go into the scale of the scores.
#pragma once

#include "pack_math.hpp"

namespace nullscope::kernels {

/// What exp2_of_score computes with. Kernels get it as an argument: the CPU's compiler then keeps the numbers in
/// registers along a loop, where it would load constants, by way of their 64-bit address, again at every use.
struct exp2_numbers {
  float lowest = -127.f;
  float shift = 0x1.8p23f + 127;  // the low bits of x + shift are the exponent of 2^n; of n = -127 it is that of 0
  /// 2^r = 1 + r (c1 + r (c2 + ...)) for |r| <= 1/2, relative error 9e-8.
  float c0 = 1.f, c1 = 0.6931469776f, c2 = 0.24022242085f, c3 = 0.055507337444f, c4 = 0.0096715126657f,
        c5 = 0.0013264726841f;
};

/// 2^x for x < 127 (or NaN) in float, within 2 units in the last place, and 0 below -126.5. Three operations fewer than
/// exp_of_nonpositive: r = x - n is exact in one step, and results that would be subnormal are not kept.
template <int W>
pack<float, W> exp2_of_score(const exp2_numbers& numbers, pack<float, W> x) {
  using number = pack<float, W>;
  using integers = detail::lanes_t<std::int32_t, W>;
  x = max(number(numbers.lowest), x);
  const number shifted = x + number(numbers.shift);
  const number r = x - (shifted - number(numbers.shift));
  number p = fma(number(numbers.c5), r, number(numbers.c4));
  p = fma(p, r, number(numbers.c3));
  p = fma(p, r, number(numbers.c2));
  p = fma(p, r, number(numbers.c1));
  p = fma(p, r, number(numbers.c0));
  return p * detail::exponent_from<float, W>(std::bit_cast<integers>(shifted.lanes));
}

/// log2(x) for normal x > 0 in float, within 2 units in the last place of the larger of the result and 1. A call of the
/// library's function would make a CPU put away and set up its matrix engine.
inline float log2_of_positive(float x) {
  constexpr std::uint32_t one = 0x3f800000u, below_one = one - 0x3f3504f3u;  // of 1 and sqrt(1/2)
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x) + below_one;
  const float exponent = static_cast<float>(static_cast<std::int32_t>(bits >> 23) - 127);
  const float mantissa = std::bit_cast<float>((bits & 0x7fffffu) + 0x3f3504f3u);  // in sqrt(1/2) .. sqrt(2)
  // 2 atanh(s) / ln(2), |s| < 0.172
  const float s = (mantissa - 1) / (mantissa + 1), square = s * s;
  float p = sycl::fma(square, 0.3205989f, 0.4121986f);
  p = sycl::fma(square, p, 0.5770780f);
  p = sycl::fma(square, p, 0.9617967f);
  p = sycl::fma(square, p, 2.8853901f);
  return sycl::fma(s, p, exponent);
}

/// The exponential that the softmax of T takes: of scores in units of log2(e) for float, in natural ones for double.
/// Scores may exceed the offset of their row by `most`, far from overflow.
template <class T>
struct score_exponential;

template <>
struct score_exponential<float> {
  static constexpr double units = 1.4426950408889634;
  static constexpr float most = 20;
  exp2_numbers numbers = {};

  template <int W>
  pack<float, W> operator()(pack<float, W> x) const {
    return exp2_of_score(numbers, x);
  }
};

template <>
struct score_exponential<double> {
  static constexpr double units = 1;
  static constexpr double most = 20;

  template <int W>
  pack<double, W> operator()(pack<double, W> x) const {
    return exp_of_nonpositive(x);  // right up to 2^500
  }
};

}  // namespace nullscope::kernels

/// The exponential of attention: powers of two, since the factor log2(e) can go into the scale of the scores.
#pragma once

#include "kernels/simd/pack_math.hpp"

namespace nullscope::kernels {

/// The constants of exp2_of_score. Kernels get them as an argument: the CPU's compiler then keeps them in registers
/// along a loop, where it would load true constants from memory at every use.
template <int Degree>
struct exp2_numbers {
  float c[Degree + 1];  // 2^r = c[0] + r (c[1] + r (c[2] + ...)) for |r| <= 1/2
  float lowest = -127.f;
  float shift = 0x1.8p23f + 127;  // the low bits of x + shift are the exponent of 2^n; of n = -127 it is that of 0
};

/// Relative error 9e-8.
inline constexpr exp2_numbers<5> exp2_for_float = [] {
  exp2_numbers<5> numbers{};
  std::copy_n(exp_of_nonpositive_numbers<float>{}.c, std::size(numbers.c), numbers.c);
  return numbers;
}();
/// Relative error 3e-6, for weights that are rounded to bfloat16 afterwards, by up to 4e-3.
inline constexpr exp2_numbers<4> exp2_for_bfloat16{
    {1.f, 0.69312417507f, 0.24024099112f, 0.05590642616f, 0.009582852945f}};

/// 2^x for x < 127 (or NaN) in float, within 2 units in the last place (with exp2_for_float), and 0 below -126.5. One
/// product fewer than exp_of_nonpositive, as results that would be subnormal are not kept, and r = x - n is exact.
template <int Degree, int W>
pack<float, W> exp2_of_score(const exp2_numbers<Degree>& numbers, pack<float, W> x) {
  using number = pack<float, W>;
  using integers = detail::lanes_t<std::int32_t, W>;
  x = max(number(numbers.lowest), x);
  const number shifted = x + number(numbers.shift);
  const number r = x - (shifted - number(numbers.shift));
  number p = number(numbers.c[Degree]);
#pragma unroll
  for (int i = Degree - 1; i >= 0; --i) p = fma(p, r, number(numbers.c[i]));
  return p * detail::exponent_from<float, W>(std::bit_cast<integers>(shifted.lanes));
}

/// log2(x) for normal x > 0 in float, within 2 units in the last place of the larger of the result and 1. A call
/// of the library's function would make a CPU save and restore the state of its matrix engine.
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
  exp2_numbers<5> numbers = exp2_for_float;

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

/// The factor of the scores, in the units of the exponential of T: its size, and 1 or -1, which the queries or scores
/// are multiplied with first, so that the largest score is the one with the most weight.
///
/// The offset of a row is one of its scores, without the size, and weights are the exponentials of size * (score -
/// offset): exactly 1 at the offset. (Of size * score - offset in one step, what the offset lost when it was rounded
/// would be left there, and for scores beyond 1e9 that is an exponent of any size.)
template <class T>
struct score_scale {
  T size, sign;
};

}  // namespace nullscope::kernels

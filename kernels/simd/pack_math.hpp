/// Exponentials of packs: short polynomials, no calls, the same accuracy for every number of lanes.
///
/// Some take their coefficients as an argument, which is a member of the kernel: the CPU's compiler then keeps them in
/// registers or on the stack during a loop. It would load constants through their 64-bit address at every use.
#pragma once

#include <algorithm>
#include <iterator>

#include "kernels/simd/pack.hpp"
#include "kernels/simd/pack_x86.hpp"

namespace nullscope::kernels {

namespace detail {

/// c0 + c1 x + c2 x^2 + ... With more than 8 coefficients by pairs and powers of x^2: half as many steps wait for one
/// another, for one more product. (Slower with 6 coefficients.)
template <class T, int Count, int W>
pack<T, W> polynomial(const T (&c)[Count], pack<T, W> x) {
  using number = pack<T, W>;
  if constexpr (Count > 8) {
    const auto pair = [&](int i) { return i + 1 < Count ? fma(number(c[i + 1]), x, number(c[i])) : number(c[i]); };
    const number square = x * x;
    constexpr int last = (Count - 1) / 2 * 2;
    number sum = pair(last);
    for (int i = last - 2; i >= 0; i -= 2) sum = fma(sum, square, pair(i));
    return sum;
  } else {
    number sum(c[Count - 1]);
    for (int i = Count - 2; i >= 0; --i) sum = fma(sum, x, number(c[i]));
    return sum;
  }
}

/// The constants of exp for a number type. `shift` is 1.5 * 2^(mantissa bits): adding it rounds to an integer, which is
/// then in the low bits. Hidden: AdaptiveCpp 24.10 links kernels for CPUs as a library, without -fPIC.
template <class T>
struct exp_constants;

template <>
struct [[gnu::visibility("hidden")]] exp_constants<float> {
  static constexpr int mantissa_bits = 23, bias = 127, spare = 64;
  static constexpr float shift = 0x1.8p23f, spare_scale = 0x1p-64f;
  static constexpr float lowest = -104.5f, highest = 89.f;  // beyond them the result is 0, infinity
  static constexpr float limit = 87.f;                      // up to there the result is a normal number
  static constexpr float log2_e = 0x1.715476p0f;
  static constexpr float ln2_high = 0x1.62e4p-1f, ln2_low = 0x1.7f7d1cp-20f;  // high: n * high is exact
  /// e^r = 1 + r (c1 + r (c2 + ...)) for |r| <= ln(2) / 2, relative error 2e-8.
  static constexpr float coefficient[] = {1.f,           0.49999992031f, 0.16666419191f,
                                          0.0416682319f, 0.00837489844f, 0.00138367370f};
};

template <>
struct [[gnu::visibility("hidden")]] exp_constants<double> {
  static constexpr int mantissa_bits = 52, bias = 1023, spare = 512;
  static constexpr double shift = 0x1.8p52, spare_scale = 0x1p-512;
  static constexpr double lowest = -746., highest = 710., limit = 708.;
  static constexpr double log2_e = 0x1.71547652b82fep0;
  static constexpr double ln2_high = 0x1.62e42fefa38p-1, ln2_low = 0x1.ef35793c7673p-45;
  /// Relative error 3e-18.
  static constexpr double coefficient[] = {
      1.0000000000000000307,    0.50000000000000178616,   0.16666666666666163679,    0.041666666666491382036,
      0.0083333333335610674687, 0.0013888888951596538267, 0.00019841269430264826591, 0.000024801486119818412127,
      2.7557623705207871243e-6, 2.7632442692065323786e-7, 2.499420247298896789e-8};
  /// 2^(i / 8), and the same for |r| <= ln(2) / 16, relative error 2.4e-18.
  static constexpr double powers_of_eighths[] = {1.,
                                                 1.0905077326652576592,
                                                 1.1892071150027210667,
                                                 1.2968395546510096659,
                                                 1.4142135623730950488,
                                                 1.5422108254079408236,
                                                 1.6817928305074290861,
                                                 1.8340080864093424635};
  static constexpr double coefficient_of_eighths[] = {
      1.0000000000000000146,    0.50000000000004097189,   0.16666666666660763812,   0.041666666557490389266,
      0.0083333333890221070993, 0.0013889819762415431132, 0.00019840238220880492517};
};

/// e^r for |r| <= ln(2) / 2.
template <class T, int W>
pack<T, W> exp_reduced(pack<T, W> r) {
  return fma(polynomial(exp_constants<T>::coefficient, r), r, pack<T, W>(T(1)));
}

/// Turns the integer in the low bits into an exponent.
template <class T, int W>
pack<T, W> exponent_from(lanes_t<integer_of<T>, W> bits) {
  return pack<T, W>::from(std::bit_cast<lanes_t<T, W>>(bits << exp_constants<T>::mantissa_bits));
}

/// factor e^x with the instructions of AVX-512, where the result is finite and `factor` a power of two: e^x = 2^n e^r
/// with n in eighths, so that |r| <= ln(2) / 16; the fractional part of 2^n is looked up in a vector.
template <int W>
pack<double, W> exp_by_eighths(pack<double, W> x, double factor) {
  using constants = exp_constants<double>;
  using number = pack<double, W>;
  const number shift(constants::shift / 8);
  const number shifted = fma(x, number(constants::log2_e), shift);
  const number n = shifted - shift;
  number r = fma_once(n, number(-constants::ln2_high), x);
  r = fma(n, number(-constants::ln2_low), r);
  const number power = lane_chosen(load<W>(constants::powers_of_eighths) * number(factor), shifted);
  return scaled_at_once(fma(polynomial(constants::coefficient_of_eighths, r) * r, power, power), n);
}

}  // namespace detail

/// The constants of exp where no lane is beyond `limit`, so that 2^n is one factor.
template <class T>
struct exp_numbers {
  using constants = detail::exp_constants<T>;
  static constexpr int count = std::size(constants::coefficient);

  T c[count];
  T log2_e = constants::log2_e, minus_ln2_high = -constants::ln2_high, minus_ln2_low = -constants::ln2_low;
  T shift = constants::shift + constants::bias;
  T limit = constants::limit;

  constexpr exp_numbers() { std::copy_n(constants::coefficient, count, c); }
};

/// e^x, within 1.1 units in the last place (1.4 where fma is two instructions). -inf gives 0, +inf and overflow give
/// +inf, underflow is gradual, NaN stays NaN.
template <class T, int W>
pack<T, W> exp(pack<T, W> x) {
  using constants = detail::exp_constants<T>;
  using number = pack<T, W>;
  using integers = detail::lanes_t<detail::integer_of<T>, W>;
  x = min(number(constants::highest), max(number(constants::lowest), x));
  if constexpr (sizeof(T) == 8 && detail::has_avx512<T, W>()) return detail::exp_by_eighths(x, 1.);
  // e^x = 2^n e^r. Without an instruction for it, 2^n takes two factors, as n has a larger range than exponents. The
  // low bits of `shifted` hold n + 2 bias, so that half of it, and the rest of it, are biased exponents.
  const number shift(constants::shift + 2 * constants::bias);
  const number shifted = fma(x, number(constants::log2_e), shift);
  const number n = shifted - shift;
  number r = fma(n, number(-constants::ln2_high), x);
  r = fma(n, number(-constants::ln2_low), r);
  if constexpr (detail::has_avx512<T, W>()) {
    return detail::scaled_at_once(detail::exp_reduced(r), n);
  } else {
    const integers bits = std::bit_cast<integers>(shifted.lanes);
    const integers half = bits >> 1;
    return detail::exp_reduced(r) * detail::exponent_from<T, W>(half) * detail::exponent_from<T, W>(bits - half);
  }
}

/// The same with fewer operations, unless a lane is beyond the limit of `k`.
template <class T, int W>
pack<T, W> exp(pack<T, W> x, const exp_numbers<T>& k) {
  using number = pack<T, W>;
  using integers = detail::lanes_t<detail::integer_of<T>, W>;
  if constexpr (detail::has_avx512<T, W>()) return exp(x);
  if (any_less(number(k.limit), abs(x))) return exp(x);
  const number shift(k.shift);
  const number shifted = fma(x, number(k.log2_e), shift);
  const number n = shifted - shift;
  number r = fma(n, number(k.minus_ln2_high), x);
  r = fma(n, number(k.minus_ln2_low), r);
  const number reduced = fma(detail::polynomial(k.c, r), r, number(T(1)));
  return reduced * detail::exponent_from<T, W>(std::bit_cast<integers>(shifted.lanes));
}

/// The constants of the exponential of numbers that are not positive.
template <class T>
struct exp_of_nonpositive_numbers;

template <>
struct exp_of_nonpositive_numbers<float> {
  using constants = detail::exp_constants<float>;
  /// 2^r for |r| <= 1/2, relative error 9e-8.
  float c[6] = {1.f, 0.6931469776f, 0.24022242085f, 0.055507337444f, 0.0096715126657f, 0.0013264726841f};
  float log2_e = constants::log2_e, lowest = constants::lowest;
  float shift = constants::shift + constants::bias + constants::spare;
};

template <>
struct exp_of_nonpositive_numbers<double> {
  using constants = detail::exp_constants<double>;
  /// Relative error 2e-16.
  double c[11] = {1.,
                  0.69314718055994917611,
                  0.24022650695909101571,
                  0.055504108664481791142,
                  0.0096181291079831246577,
                  0.0013333558225804207458,
                  0.00015403529994273531505,
                  0.000015252659425667804189,
                  1.3215653577174095286e-6,
                  1.0208323348127870652e-7,
                  7.0381830806676564533e-9};
  double log2_e = constants::log2_e, lowest = constants::lowest;
  double shift = constants::shift + constants::bias + constants::spare;
};

/// e^x for x <= 0 (or NaN), times a power of two so large that no result is subnormal; multiplying by `exp_scale`
/// removes it again. The relative error is at most (2 + |x| / 8) eps, because log2(e) is rounded to T.
template <class T>
inline constexpr T exp_scale = detail::exp_constants<T>::spare_scale;

template <class T, int W>
pack<T, W> scaled_exp_of_nonpositive(pack<T, W> x, const exp_of_nonpositive_numbers<T>& k = {}) {
  using number = pack<T, W>;
  using integers = detail::lanes_t<detail::integer_of<T>, W>;
  x = max(number(k.lowest), x);
  if constexpr (sizeof(T) == 8 && detail::has_avx512<T, W>()) return detail::exp_by_eighths(x, 1 / exp_scale<T>);
  const number shift(k.shift), log2_e(k.log2_e);
  const number shifted = fma(x, log2_e, shift);
  const number r = fma_once(x, log2_e, shift - shifted);
  return detail::polynomial(k.c, r) * detail::exponent_from<T, W>(std::bit_cast<integers>(shifted.lanes));
}

/// e^x for x <= 0 (or NaN), as above; the last product rounds once.
template <class T, int W>
pack<T, W> exp_of_nonpositive(pack<T, W> x, const exp_of_nonpositive_numbers<T>& k = {}) {
  return scaled_exp_of_nonpositive(x, k) * pack<T, W>(exp_scale<T>);
}

}  // namespace nullscope::kernels

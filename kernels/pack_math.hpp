/// Elementary functions of packs: short polynomials, no calls, no tables, no branches, the same bits on every lane
/// width.
#pragma once

#include "pack.hpp"

namespace nullscope::kernels {

namespace detail {

/// factor (c0 + c1 x + c2 x^2 + ...)
template <class T, int Count, int W>
pack<T, W> polynomial(const T (&c)[Count], T factor, pack<T, W> x) {
  pack<T, W> sum(c[Count - 1] * factor);
  for (int i = Count - 2; i >= 0; --i) sum = fma(sum, x, pack<T, W>(c[i] * factor));
  return sum;
}

/// The same by pairs of coefficients and powers of x^2: half as many steps wait for one another, for one product more
/// and more registers. (Time by that of `polynomial`: softmax 0.94 to 0.97, gelu of float, three of them at once, 1.1.)
template <class T, int Count, int W>
pack<T, W> polynomial_by_pairs(const T (&c)[Count], pack<T, W> x) {
  using number = pack<T, W>;
  const auto pair = [&](int i) { return i + 1 < Count ? fma(number(c[i + 1]), x, number(c[i])) : number(c[i]); };
  const number square = x * x;
  constexpr int last = (Count - 1) / 2 * 2;
  number sum = pair(last);
  for (int i = last - 2; i >= 0; i -= 2) sum = fma(sum, square, pair(i));
  return sum;
}

/// What exp needs to know of a number type. `shift` is 1.5 * 2^(mantissa bits): adding it rounds to an integer, which
/// then stands in the low bits.
template <class T>
struct exp_constants;

template <>
struct exp_constants<float> {
  static constexpr int mantissa_bits = 23, bias = 127, spare = 64;
  static constexpr float shift = 0x1.8p23f, spare_scale = 0x1p-64f;
  static constexpr float lowest = -104.5f, highest = 89.f;  // beyond them the result is 0, infinity
  static constexpr float log2_e = 0x1.715476p0f;
  static constexpr float ln2_high = 0x1.62e4p-1f, ln2_low = 0x1.7f7d1cp-20f;  // high: n * high is exact
  /// e^r = 1 + r (c1 + r (c2 + ...)) for |r| <= ln(2) / 2, relative error 2e-8.
  static constexpr float coefficient[] = {1.f,           0.49999992031f, 0.16666419191f,
                                          0.0416682319f, 0.00837489844f, 0.00138367370f};
};

template <>
struct exp_constants<double> {
  static constexpr int mantissa_bits = 52, bias = 1023, spare = 512;
  static constexpr double shift = 0x1.8p52, spare_scale = 0x1p-512;
  static constexpr double lowest = -746., highest = 710.;
  static constexpr double log2_e = 0x1.71547652b82fep0;
  static constexpr double ln2_high = 0x1.62e42fefa38p-1, ln2_low = 0x1.ef35793c7673p-45;
  /// Relative error 3e-18.
  static constexpr double coefficient[] = {
      1.0000000000000000307,    0.50000000000000178616,   0.16666666666666163679,    0.041666666666491382036,
      0.0083333333335610674687, 0.0013888888951596538267, 0.00019841269430264826591, 0.000024801486119818412127,
      2.7557623705207871243e-6, 2.7632442692065323786e-7, 2.499420247298896789e-8};
};

/// e^r for |r| <= ln(2) / 2.
template <class T, int W>
pack<T, W> exp_reduced(pack<T, W> r) {
  return fma(polynomial(exp_constants<T>::coefficient, T(1), r), r, pack<T, W>(T(1)));
}

/// The integer that stands in the low bits of `shifted` becomes an exponent.
template <class T, int W>
pack<T, W> exponent_from(lanes_t<integer_of<T>, W> bits) {
  return pack<T, W>::from(std::bit_cast<lanes_t<T, W>>(bits << exp_constants<T>::mantissa_bits));
}

}  // namespace detail

/// e^x, within 1.1 units in the last place (1.4 where fma is two instructions). -inf gives 0, +inf and overflow give
/// +inf, underflow is gradual, NaN stays NaN.
template <class T, int W>
pack<T, W> exp(pack<T, W> x) {
  using constants = detail::exp_constants<T>;
  using number = pack<T, W>;
  using integers = detail::lanes_t<detail::integer_of<T>, W>;
  x = min(number(constants::highest), max(number(constants::lowest), x));
  // e^x = 2^n e^r. 2^n takes two factors, as n runs over more than the exponents there are; the low bits of `shifted`
  // hold n + 2 bias, so that half of it, and the rest of it, are exponents already.
  const number shift(constants::shift + 2 * constants::bias);
  const number shifted = fma(x, number(constants::log2_e), shift);
  const number n = shifted - shift;
  number r = fma(n, number(-constants::ln2_high), x);
  r = fma(n, number(-constants::ln2_low), r);
  const integers bits = std::bit_cast<integers>(shifted.lanes);
  const integers half = bits >> 1;
  return detail::exp_reduced(r) * detail::exponent_from<T, W>(half) * detail::exponent_from<T, W>(bits - half);
}

/// e^x for x <= 0 (or NaN), times a power of two so large that no result is subnormal: with five operations fewer than
/// exp. `exp_scale` takes the power away again.
template <class T>
inline constexpr T exp_scale = detail::exp_constants<T>::spare_scale;

template <class T, int W>
pack<T, W> scaled_exp_of_nonpositive(pack<T, W> x) {
  using constants = detail::exp_constants<T>;
  using number = pack<T, W>;
  using integers = detail::lanes_t<detail::integer_of<T>, W>;
  x = max(number(constants::lowest), x);
  const number shift(constants::shift + constants::bias + constants::spare);
  const number shifted = fma(x, number(constants::log2_e), shift);
  const number n = shifted - shift;
  number r = fma(n, number(-constants::ln2_high), x);
  r = fma(n, number(-constants::ln2_low), r);
  const number reduced = fma(detail::polynomial_by_pairs(constants::coefficient, r), r, number(T(1)));
  return reduced * detail::exponent_from<T, W>(std::bit_cast<integers>(shifted.lanes));
}

/// e^x for x <= 0 (or NaN): the last product rounds once.
template <class T, int W>
pack<T, W> exp_of_nonpositive(pack<T, W> x) {
  return scaled_exp_of_nonpositive(x) * pack<T, W>(exp_scale<T>);
}

namespace detail {

/// Phi(-a) = e^(-a^2 / 2) p(a) / q(a) for 0 <= a <= limit, Phi being the normal distribution function; beyond, a
/// Phi(-a) is no number. All coefficients are positive, so nothing cancels.
template <class T>
struct normal_tail_constants;

template <>
struct normal_tail_constants<float> {
  static constexpr float limit = 14.4f;
  /// Relative error 6e-9.
  static constexpr float p[] = {0.50000000291f, 0.43809019985f, 0.18308331483f, 0.040582005415f, 0.0041086940671f};
  static constexpr float q[] = {1.f, 1.6740653757f, 1.2018728110f, 0.46906978931f, 0.10173051928f, 0.010298847250f};
};

template <>
struct normal_tail_constants<double> {
  static constexpr double limit = 38.7;
  /// Relative error 5e-17.
  static constexpr double p[] = {0.49999999999999997591,   0.77468993012436803874,    0.59377923426304021201,
                                 0.28914159594163015449,   0.097613457019427142417,   0.023596131094785770841,
                                 0.0040837151181900031339, 0.00048960528053045905446, 0.000037180106463870582453,
                                 1.3823844027588667142e-6};
  static constexpr double q[] = {1.,
                                 2.3472644210515917219,
                                 2.5604045102053344003,
                                 1.7135197297240269473,
                                 0.78149760983285270902,
                                 0.25473060186963586679,
                                 0.060367057997187224573,
                                 0.010329552475541481063,
                                 0.0012307235636197675219,
                                 0.000093196706113945730909,
                                 3.465123830374847969e-6};
};

}  // namespace detail

/// x Phi(x) with Phi the normal distribution function: x (1 + erf(x / sqrt(2))) / 2, also where that would cancel.
/// Accurate relative to the result on both sides; -inf gives -0, NaN stays NaN.
///
/// Time of 16 floats on a CPU with AVX-512, in one run: 0.6 of that with e^(a^2) erfc(a) as a polynomial in
/// (a - 3.5) / (a + 3.5) and steps of Newton's method for the division, which were 1.13 times as slow as dividing.
template <class T, int W>
pack<T, W> gelu(pack<T, W> x) {
  using constants = detail::normal_tail_constants<T>;
  using exponential = detail::exp_constants<T>;
  using number = pack<T, W>;
  using integers = detail::lanes_t<detail::integer_of<T>, W>;
  const number size = min(number(constants::limit), abs(x)), half = size * number(T(-0.5));
  // e^(-x^2 / 2) = 2^n e^r as in exp_of_nonpositive, with r from x^2 as it is before rounding: n ln2_high is exact.
  const number shift(exponential::shift + exponential::bias + exponential::spare);
  const number shifted = fma(size * half, number(exponential::log2_e), shift);
  const number n = shifted - shift;
  number r = fma_once(size, half, n * number(-exponential::ln2_high));
  r = fma(n, number(-exponential::ln2_low), r);
  const number bell = detail::exp_reduced(r) * detail::exponent_from<T, W>(std::bit_cast<integers>(shifted.lanes));
  const number p = detail::polynomial(constants::p, 2 * exponential::spare_scale, size);
  const number q = detail::polynomial(constants::q, T(1), size);
  return fma(half * p / q, bell, max(number(T(0)), x));  // x or 0, less |x| Phi(-|x|)
}

/// The usual approximation of gelu, x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2. -inf gives -0, NaN stays NaN.
template <class T, int W>
pack<T, W> gelu_tanh(pack<T, W> x) {
  using number = pack<T, W>;
  // (1 + tanh(z)) / 2 = 1 / (1 + e^(-2 z)) = e^(2 z) / (1 + e^(2 z)), of which the one with e^(-2 |z|) neither cancels
  // nor overflows.
  const number size = min(number(T(100)), abs(x));
  const number linear(T(-1.5957691216057307118)),
      cubic(T(-0.071354816272600248776));  // -2 sqrt(2 / pi), that * 0.044715
  const number e = exp_of_nonpositive(size * fma(cubic * size, size, linear));
  return where_less(x, number(T(0)), -size * e, x) / (e + number(T(1)));
}

}  // namespace nullscope::kernels

/// Elementary functions of packs: short polynomials, no calls, no branches, the same accuracy on every lane width.
///
/// With the instructions of AVX-512, share of the bandwidth of a copy in one run each, first without them: exp of float
/// in cache 0.73, 0.82 (0.80 in sixteenths, as double in eighths; a copy with ordinary stores 0.83); exp of double
/// 0.58, 0.67, in eighths 0.76; e^x for x <= 0 of double 0.71, in eighths 0.81.
///
/// Without them exp and gelu keep Horner's rule. By pairs, and with the power of two multiplied in early, on Zen 3:
/// native loops in the first cache took 1.0 of the time (exp of float), 0.85 (of double), 0.96 (gelu of float), but the
/// kernels, both in turns, medians of 6144 x 512: exp 1.11 and 1.02, gelu 1.00 and 1.12 of it for float and double.
#pragma once

#include "pack.hpp"
#include "pack_avx512.hpp"

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
  return fma(polynomial(exp_constants<T>::coefficient, T(1), r), r, pack<T, W>(T(1)));
}

/// The integer that stands in the low bits of `shifted` becomes an exponent.
template <class T, int W>
pack<T, W> exponent_from(lanes_t<integer_of<T>, W> bits) {
  return pack<T, W>::from(std::bit_cast<lanes_t<T, W>>(bits << exp_constants<T>::mantissa_bits));
}

/// e^x factor for x whose result is a number, `factor` being a power of two, with the instructions of AVX-512: e^x =
/// 2^n e^r for n in eighths, so that |r| <= ln(2) / 16; 2^n without its whole part comes out of a vector.
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
  return scaled_at_once(fma(polynomial(constants::coefficient_of_eighths, 1., r) * r, power, power), n);
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
  if constexpr (sizeof(T) == 8 && detail::has_avx512<T, W>()) return detail::exp_by_eighths(x, 1.);
  // e^x = 2^n e^r. Without an instruction for it 2^n takes two factors, as n runs over more than the exponents there
  // are; the low bits of `shifted` hold n + 2 bias, so that half of it, and the rest of it, are exponents already.
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
  if constexpr (sizeof(T) == 8 && detail::has_avx512<T, W>()) return detail::exp_by_eighths(x, 1 / exp_scale<T>);
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
/// Phi(-a) is no number. `bell` is e^(-z / 2) for |z| <= ln(2). All by Remez's algorithm, for the least relative error.
/// All coefficients of p and q are positive, so nothing cancels.
template <class T>
struct normal_tail_constants;

template <>
struct normal_tail_constants<float> {
  static constexpr float limit = 14.4f;
  /// Relative errors 1.5e-7 and 7e-8. (With p and q of degrees 4 and 5, error 6e-9, the worst result is 3 units in the
  /// last place off instead of 4.4; with 3 and 4, error 4e-7, 7.)
  static constexpr float p[] = {0.499999924591f, 0.342630121426f, 0.109067485089f, 0.0146856004004f, 1.98914964834e-7f};
  static constexpr float q[] = {1.f, 1.48313674878f, 0.901575897975f, 0.272883396334f, 0.0368358907747f};
  static constexpr float bell[] = {1.00000007169f,    -0.499999845922f,  0.124997236076f,
                                   -0.0208344688295f, 0.00261971437108f, -0.000259301486736f};
};

template <>
struct normal_tail_constants<double> {
  static constexpr double limit = 38.7;
  /// Relative errors 5e-17 and 2e-16.
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
  static constexpr double bell[] = {1.0000000000000000661,      -0.50000000000000322091,   0.12499999999999321648,
                                    -0.02083333333319718781,    0.002604166666776646255,   -0.00026041666827072734969,
                                    0.000021701388279802373038, -1.5500915145999381213e-6, 9.6882491157589689094e-8,
                                    -5.3983920506943244148e-9,  2.6844171258320420708e-10};
};

}  // namespace detail

/// x Phi(x) with Phi the normal distribution function: x (1 + erf(x / sqrt(2))) / 2, also where that would cancel.
/// Accurate relative to the result on both sides; -inf gives a zero, NaN stays NaN.
///
/// Bound by its number of instructions, 25 and a division for float; the division is not what it waits for. Pieces of
/// polynomials whose coefficients come out of vectors would take as many, or branches for tails that are not rare.
template <class T, int W>
pack<T, W> gelu(pack<T, W> x) {
  using constants = detail::normal_tail_constants<T>;
  using exponential = detail::exp_constants<T>;
  using number = pack<T, W>;
  using integers = detail::lanes_t<detail::integer_of<T>, W>;
  number size;
  if constexpr (detail::has_avx512<T, W>()) {
    size = detail::limited_size(x, number(constants::limit));
  } else {
    size = min(number(constants::limit), abs(x));
  }
  // e^(-x^2 / 2) = 2^n e^(-z / 2), with z from x^2 as it is before rounding: n ln2_high is exact.
  const number shift(exponential::shift + exponential::bias + exponential::spare);
  const number shifted = fma(size * size, number(exponential::log2_e / -2), shift);
  const number n = shifted - shift;
  number z = fma_once(size, size, n * number(2 * exponential::ln2_high));
  z = fma(n, number(2 * exponential::ln2_low), z);
  const number bell = detail::polynomial(constants::bell, T(1), z);
  const number p = detail::polynomial(constants::p, T(-1), size);
  const number q = detail::polynomial(constants::q, T(1), size);
  // x or 0, less |x| Phi(-|x|)
  const number tail = size * p / q, rest = max(number(T(0)), x);
  if constexpr (detail::has_avx512<T, W>()) {
    return fma(tail, detail::scaled_at_once(bell, n), rest);
  } else {
    const number power = detail::exponent_from<T, W>(std::bit_cast<integers>(shifted.lanes));
    return fma(tail * (bell * power), number(exponential::spare_scale), rest);
  }
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

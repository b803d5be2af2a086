/// Elementary functions of packs: short polynomials, no calls, no tables, no branches, the same bits on every lane
/// width.
#pragma once

#include "pack.hpp"

namespace nullscope::kernels {

namespace detail {

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
  constexpr auto& c = exp_constants<T>::coefficient;
  constexpr int count = sizeof(c) / sizeof(T);
  pack<T, W> p(c[count - 1]);
  for (int i = count - 2; i >= 0; --i) p = fma(p, r, pack<T, W>(c[i]));
  return fma(p, r, pack<T, W>(T(1)));
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

/// e^x for x <= 0 (or NaN), as softmax needs it: the same with four operations fewer.
template <class T, int W>
pack<T, W> exp_of_nonpositive(pack<T, W> x) {
  using constants = detail::exp_constants<T>;
  using number = pack<T, W>;
  using integers = detail::lanes_t<detail::integer_of<T>, W>;
  x = max(number(constants::lowest), x);
  // 2^n = 2^(n + spare) 2^-spare: the first is never subnormal, so the last product rounds once.
  const number shift(constants::shift + constants::bias + constants::spare);
  const number shifted = fma(x, number(constants::log2_e), shift);
  const number n = shifted - shift;
  number r = fma(n, number(-constants::ln2_high), x);
  r = fma(n, number(-constants::ln2_low), r);
  const number scale = detail::exponent_from<T, W>(std::bit_cast<integers>(shifted.lanes));
  return detail::exp_reduced(r) * scale * number(constants::spare_scale);
}

namespace detail {

/// 1 / x for x > 0 far from overflow and underflow, within about 1 unit in the last place: a guess from the exponent,
/// then steps that cube the error (0.12, 2e-3, 5e-9, ...). A third of the time of a division on a CPU.
template <class T, int W>
pack<T, W> reciprocal(pack<T, W> x) {
  using number = pack<T, W>;
  using integers = lanes_t<integer_of<T>, W>;
  constexpr bool is_double = sizeof(T) == 8;
  constexpr integer_of<T> twice_one = is_double ? static_cast<integer_of<T>>(0x7fde623822fc16e6) : 0x7ef311c7;
  number r = number::from(std::bit_cast<lanes_t<T, W>>(twice_one - std::bit_cast<integers>(x.lanes)));
  for (int step = 0; step < (is_double ? 3 : 2); ++step) {
    const number error = fma(-x, r, number(T(1)));
    r = fma(r, fma(error, error, error), r);
  }
  return r;
}

/// x with the lower half of its mantissa cleared: the square of what is left is exact.
template <class T, int W>
pack<T, W> front_half(pack<T, W> x) {
  using integers = lanes_t<integer_of<T>, W>;
  constexpr int cleared = sizeof(T) == 8 ? 27 : 12;
  return pack<T, W>::from(std::bit_cast<lanes_t<T, W>>(std::bit_cast<integers>(x.lanes) >> cleared << cleared));
}

/// e^(a^2) erfc(a) as a polynomial in u = (a - 3.5) / (a + 3.5) for 0 <= a <= limit / sqrt(2); beyond, half of erfc is
/// no number.
template <class T>
struct erfcx_constants;

template <>
struct erfcx_constants<float> {
  static constexpr float limit = 14.5f;
  /// Relative error 2.2e-8.
  static constexpr float coefficient[] = {0.15529365592f,  -0.28926499428f, 0.23313036900f, -0.16134035457f,
                                          0.09443002499f,  -0.04541769787f, 0.01696939473f, -0.00432315084f,
                                          0.000241875479f, 0.000411495775f};
};

template <>
struct erfcx_constants<double> {
  static constexpr double limit = 39.;
  /// Relative error 5.4e-18.
  static constexpr double coefficient[] = {
      0.1552936556088942967,     -0.2892650448327674312,    0.2331304816002509683,     -0.1613385247645058142,
      0.09442780690918349856,    -0.04543676118366926865,   0.01697676093148873713,    -0.004242238603871407883,
      0.0002673850926159675127,  0.0002885551996719263596,  -0.0001080848337842905957, -4.673573273027733752e-6,
      0.00001334631883843828435, -1.628971266694314414e-6,  -1.519439521900335005e-6,  3.707578584006057042e-7,
      1.923890168935347099e-7,   -6.201691885283410743e-8,  -2.849353156463190078e-8,  8.808628437826897933e-9,
      4.385019912305372839e-9,   -8.200590757724075131e-10, -4.686437699633427078e-10};
};

}  // namespace detail

/// x Phi(x) with Phi the normal distribution function: x (1 + erf(x / sqrt(2))) / 2, also where that would cancel.
/// Accurate relative to the result on both sides; -inf gives -0, NaN stays NaN.
template <class T, int W>
pack<T, W> gelu(pack<T, W> x) {
  using constants = detail::erfcx_constants<T>;
  using number = pack<T, W>;
  constexpr auto& c = constants::coefficient;
  constexpr int count = sizeof(c) / sizeof(T);
  const number size = min(number(constants::limit), abs(x));
  const number middle(T(4.9497474683058326708));  // 3.5 sqrt(2)
  const number u = fma(middle * number(T(-2)), detail::reciprocal(size + middle), number(T(1)));
  number p(c[count - 1]);
  for (int i = count - 2; i >= 0; --i) p = fma(p, u, number(c[i]));
  // e^(-x^2 / 2), with what the square lost to rounding put back. (A compiler may take fma(size, size, -square) for
  // zero.)
  const number square = size * size;
  const number front = detail::front_half(size), rest = size - front;
  const number lost = fma(rest, rest, fma(rest + rest, front, fma(front, front, -square)));
  const number bell = exp_of_nonpositive(square * number(T(-0.5)));
  const number tail = fma(bell * number(T(-0.5)), lost, bell);
  return fma(size * number(T(-0.5)) * p, tail, max(number(T(0)), x));  // |x| Phi(-|x|) less than x or 0
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
  const number r = detail::reciprocal(e + number(T(1)));
  return where_less(x, number(T(0)), -size * e * r, x * r);
}

}  // namespace nullscope::kernels

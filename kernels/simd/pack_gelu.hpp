/// The activation function of transformers, on packs.
#pragma once

#include "kernels/simd/pack_math.hpp"

namespace nullscope::kernels {

namespace detail {

/// Phi(-a) = e^(-a^2 / 2) p(a) / q(a) for 0 <= a <= limit, where Phi is the normal distribution function; beyond the
/// limit a Phi(-a) underflows. `bell` is e^(-z / 2) for |z| <= ln(2). All minimise the relative error (Remez's
/// algorithm). All coefficients of p and q are positive, so nothing cancels.
template <class T>
struct normal_tail_constants;

template <>
struct normal_tail_constants<float> {
  static constexpr float limit = 14.4f;
  /// Relative errors 1.5e-7 and 7e-8.
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

/// The constants of gelu where no lane is beyond `limit`: the fourth root of Phi(-a) as a polynomial in a - centre. The
/// fourth root needs few coefficients and magnifies rounding errors little, and this centre keeps precision where the
/// root is small.
template <class T>
struct gelu_numbers;

template <>
struct gelu_numbers<float> {
  float limit = 3.75f, centre = 2.625f;
  /// Relative error of Phi 7e-8, with coefficients rounded so that it is smallest.
  float root[11] = {0.25655669f,      -0.188373476f,   0.0397739187f,   0.00422370387f,
                    -0.00275313202f,  0.000123073332f, 0.000100735379f, -1.43334728e-05f,
                    -2.03105378e-06f, 6.01828333e-07f, 7.22826243e-08f};
};

template <>
struct gelu_numbers<double> {
  double limit = 3.75, centre = 3.125;
  /// Relative error of Phi 1.4e-16.
  double root[22] = {
      0.17267462836550303328,     -0.14675265247680818349,    0.042217880418618395631,    -0.0007573327727882550947,
      -0.0021364428822678607799,  0.00034205401583964454252,  0.000043876458121251691782, -0.000016952820146989401757,
      3.4563768744089281016e-7,   4.2835669541904092555e-7,   -4.2543753660746525386e-8,  -6.318521575151215834e-9,
      1.2513764124524987392e-9,   4.8177024106491995383e-11,  -2.6154293470895710997e-11, -1.1592524202865953476e-12,
      -6.955330487506388179e-13,  -4.5140457904668296609e-13, -1.1335058435014929453e-13, -1.7386723666341640845e-14,
      -1.5592703729997860369e-15, -5.7110222394020308305e-17};
};

/// x Phi(x) with Phi the normal distribution function: x (1 + erf(x / sqrt(2))) / 2, also where that would cancel.
/// Accurate relative to the result on both sides; -inf gives a zero, NaN stays NaN.
template <class T, int W>
pack<T, W> gelu(pack<T, W> x) {
  using constants = detail::normal_tail_constants<T>;
  using exponential = detail::exp_constants<T>;
  using number = pack<T, W>;
  using integers = detail::lanes_t<detail::integer_of<T>, W>;
  const number size = min(number(constants::limit), abs(x));
  // e^(-x^2 / 2) = 2^n e^(-z / 2), with z from x^2 before rounding: n ln2_high is exact.
  const number shift(exponential::shift + exponential::bias + exponential::spare);
  const number shifted = fma(size * size, number(exponential::log2_e / -2), shift);
  const number n = shifted - shift;
  number z = fma_once(size, size, n * number(2 * exponential::ln2_high));
  z = fma(n, number(2 * exponential::ln2_low), z);
  const number bell = detail::polynomial(constants::bell, z);
  const number p = detail::polynomial(constants::p, size);
  const number q = detail::polynomial(constants::q, size);
  // x or 0, less |x| Phi(-|x|)
  const number power = detail::exponent_from<T, W>(std::bit_cast<integers>(shifted.lanes));
  return fma(-(size * p / q * (bell * power)), number(exponential::spare_scale), max(number(T(0)), x));
}

/// The same with half as many operations, unless a lane is beyond the limit of `k`: e^(-x^2 / 2) falls so fast that a
/// polynomial without it is accurate relative to the result only up to there. For N(0, 1), 1 pack of 8 in 700 is
/// beyond.
template <class T, int W>
pack<T, W> gelu(pack<T, W> x, const gelu_numbers<T>& k) {
  using number = pack<T, W>;
  const number size = abs(x), limit(k.limit);
  const number root = detail::polynomial(k.root, size - number(k.centre)), square = root * root;
  const number near = fma(-(size * square), square, max(number(T(0)), x));  // x or 0, less |x| Phi(-|x|)
  if (any_less(limit, size))
    return where_less(limit, size, gelu(x), near);  // a result must not depend on the other lanes
  return near;
}

/// The usual approximation of gelu, x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2. -inf gives -0, NaN stays NaN.
template <class T, int W>
pack<T, W> gelu_tanh(pack<T, W> x, const exp_of_nonpositive_numbers<T>& k) {
  using number = pack<T, W>;
  // (1 + tanh(z)) / 2 = 1 / (1 + e^(-2 z)) = e^(2 z) / (1 + e^(2 z)), of which the one with e^(-2 |z|) neither cancels
  // nor overflows.
  const number size = min(number(T(100)), abs(x));
  const number linear(T(-1.5957691216057307118)),
      cubic(T(-0.071354816272600248776));  // -2 sqrt(2 / pi), that * 0.044715
  const number e = exp_of_nonpositive(size * fma(cubic * size, size, linear), k);
  return where_less(x, number(T(0)), -size * e, x) / (e + number(T(1)));
}

}  // namespace nullscope::kernels

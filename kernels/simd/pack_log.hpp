/// The natural logarithm of packs.
#pragma once

#include "kernels/simd/pack.hpp"

namespace nullscope::kernels {

namespace detail {

template <class T>
struct log_constants;

/// ln m = 2 s (1 + s^2 / 3 + s^4 / 5 + ...) with s = (m - 1) / (m + 1), |s| <= 0.1716 for m from sqrt(1/2) to sqrt(2).
template <>
struct log_constants<float> {
  static constexpr int mantissa_bits = 23, terms = 5;
  static constexpr float ln2 = 0x1.62e43p-1f;
};
template <>
struct log_constants<double> {
  static constexpr int mantissa_bits = 52, terms = 11;
  static constexpr double ln2 = 0x1.62e42fefa39efp-1;
};

}  // namespace detail

/// ln x for normal numbers x > 0, to a few units in the last place of the larger of |ln x| and 1.
template <class T, int W>
pack<T, W> log_of_normal(pack<T, W> x) {
  using constants = detail::log_constants<T>;
  using number = pack<T, W>;
  using integer = detail::integer_of<T>;
  using integers = detail::lanes_t<integer, W>;
  // x = 2^n m: subtracting the bits of sqrt(1/2) makes the exponent bits n.
  const integer half = std::bit_cast<integer>(T(0.70710678118654752440));
  const integers bits = std::bit_cast<integers>(x.lanes) - half;
  const integers exponent = bits >> constants::mantissa_bits;
  const integers mantissa = (bits & ((integer(1) << constants::mantissa_bits) - 1)) + half;
  const number m = number::from(std::bit_cast<typename number::lanes_type>(mantissa));
  const number n = convert<T>(pack<integer, W>::from(exponent));
  const number s = (m - number(T(1))) / (m + number(T(1))), square = s * s;
  number sum(T(1) / T(2 * constants::terms - 1));
  for (int i = constants::terms - 2; i >= 0; --i) sum = fma(sum, square, number(T(1) / T(2 * i + 1)));
  return fma(n, number(constants::ln2), number(T(2)) * s * sum);
}

}  // namespace nullscope::kernels

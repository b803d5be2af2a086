/// The activation functions of layers and their derivatives, on packs.
#pragma once

#include "kernels/simd/pack_gelu.hpp"

namespace nullscope::kernels {

enum class activation_kind { none, relu, gelu, gelu_tanh, tanh };

namespace detail {

/// Phi(x), the normal distribution function, and phi(x), its density.
template <class T, int W>
struct normal_values {
  pack<T, W> cdf, density;
};

/// From Phi(-|x|) = e^(-x^2 / 2) p(|x|) / q(|x|), as in gelu.
template <class T, int W>
normal_values<T, W> normal_distribution(pack<T, W> x, const exp_of_nonpositive_numbers<T>& k) {
  using constants = normal_tail_constants<T>;
  using number = pack<T, W>;
  const number size = min(number(constants::limit), abs(x));
  const number bell = exp_of_nonpositive(number(T(-0.5)) * size * size, k);
  const number tail = bell * polynomial(constants::p, size) / polynomial(constants::q, size);
  const number cdf = where_less(x, number(T(0)), tail, number(T(1)) - tail);
  return {cdf, bell * number(T(0.39894228040143267794))};
}

}  // namespace detail

/// tanh(x): an odd series near 0, where the exponential would cancel; NaN stays NaN.
template <class T, int W>
pack<T, W> tanh(pack<T, W> x, const exp_of_nonpositive_numbers<T>& k) {
  using number = pack<T, W>;
  constexpr T series[] = {T(1),
                          T(-0.33333333333333333333),
                          T(0.13333333333333333333),
                          T(-0.053968253968253968254),
                          T(0.021869488536155202822),
                          T(-0.0088632355299021965689),
                          T(0.0035921280365724810169),
                          T(-0.0014558343870513182682)};
  const number size = abs(x), square = x * x;
  const number e = exp_of_nonpositive(number(T(-2)) * min(number(T(50)), size), k);
  const number far = (number(T(1)) - e) / (number(T(1)) + e);
  const number near = x * detail::polynomial(series, square);
  const number signed_far = where_less(x, number(T(0)), -far, far);
  const number result = where_less(size, number(T(0.125)), near, signed_far);
  return number::from(x.lanes != x.lanes ? x.lanes : result.lanes);
}

/// y = f(x) and f'(x) for one of the functions; the constants are members, as pack_math.hpp explains.
template <class T, activation_kind Kind>
struct activation_function {
  exp_of_nonpositive_numbers<T> exponential;
  gelu_numbers<T> numbers;

  template <int W>
  pack<T, W> value(pack<T, W> x) const {
    using number = pack<T, W>;
    if constexpr (Kind == activation_kind::relu) return max(number(T(0)), x);  // in this order NaN stays NaN
    if constexpr (Kind == activation_kind::gelu) return gelu(x, numbers);
    if constexpr (Kind == activation_kind::gelu_tanh) return gelu_tanh(x, exponential);
    if constexpr (Kind == activation_kind::tanh) return kernels::tanh(x, exponential);
    return x;
  }

  template <int W>
  pack<T, W> derivative(pack<T, W> x) const {
    using number = pack<T, W>;
    const number one(T(1)), zero(T(0));
    if constexpr (Kind == activation_kind::relu) {
      const number step = where_less(zero, x, one, zero);
      return number::from(x.lanes != x.lanes ? x.lanes : step.lanes);
    }
    if constexpr (Kind == activation_kind::gelu) {
      const auto [cdf, density] = detail::normal_distribution(x, exponential);
      return fma(x, density, cdf);
    }
    if constexpr (Kind == activation_kind::gelu_tanh) {
      // f = x (1 + t) / 2 with t = tanh(z): f' = (1 + t) / 2 + x (1 - t^2) z' / 2
      const number c(T(0.79788456080286535588)), a(T(0.044715));
      const number bounded = min(number(T(100)), max(number(T(-100)), x));
      const number square = bounded * bounded;
      const number t = kernels::tanh(c * bounded * fma(a, square, one), exponential);
      const number slope = c * fma(number(T(3)) * a, square, one);
      return number(T(0.5)) * fma(bounded * (one - t * t), slope, one + t);
    }
    if constexpr (Kind == activation_kind::tanh) {
      const number t = kernels::tanh(x, exponential);
      return one - t * t;
    }
    return one;
  }
};

}  // namespace nullscope::kernels

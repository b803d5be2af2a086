/// The functions of SYCL on single numbers.
#pragma once

#include <algorithm>
#include <cmath>

namespace sycl {
inline namespace _V1 {

// clang-format off
template <class T> T fmax(T a, T b) { return std::fmax(a, b); }
template <class T> T fmin(T a, T b) { return std::fmin(a, b); }
template <class T> T fabs(T a) { return std::fabs(a); }
template <class T> T sqrt(T a) { return std::sqrt(a); }
template <class T> T rsqrt(T a) { return T(1) / std::sqrt(a); }
template <class T> T exp(T a) { return std::exp(a); }
template <class T> T exp2(T a) { return std::exp2(a); }
template <class T> T log(T a) { return std::log(a); }
template <class T> T sin(T a) { return std::sin(a); }
template <class T> T cos(T a) { return std::cos(a); }
template <class T> T floor(T a) { return std::floor(a); }
template <class T> T fma(T a, T b, T c) { return std::fma(a, b, c); }
template <class T> T min(T a, T b) { return std::min(a, b); }
template <class T> T max(T a, T b) { return std::max(a, b); }
template <class T> T clamp(T a, T low, T high) { return std::clamp(a, low, high); }
template <class T> T ldexp(T a, int exponent) { return std::ldexp(a, exponent); }
template <class T> int ilogb(T a) { return std::ilogb(a); }
template <class T> T copysign(T a, T b) { return std::copysign(a, b); }
template <class T> bool isnan(T a) { return std::isnan(a); }
template <class T> bool isinf(T a) { return std::isinf(a); }
template <class T> bool isfinite(T a) { return std::isfinite(a); }
// clang-format on

}  // namespace _V1
}  // namespace sycl

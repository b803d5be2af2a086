/// What the SVD kernels need in addition to pack.hpp: comparisons that give a mask, choices by a mask, square roots.
#pragma once

#include <sycl/sycl.hpp>

#include "kernels/simd/pack.hpp"

namespace nullscope::kernels {

/// One truth value per lane: all bits set, or none.
template <class T, int W>
struct lane_mask {
  using bits_type = typename detail::lanes_of<detail::integer_of<T>, W>::type;

  bits_type bits;

  friend lane_mask operator&(lane_mask a, lane_mask b) { return {a.bits & b.bits}; }
  friend lane_mask operator|(lane_mask a, lane_mask b) { return {a.bits | b.bits}; }
  friend lane_mask operator~(lane_mask a) { return {~a.bits}; }
};

template <class T, int W>
lane_mask<T, W> greater(pack<T, W> a, pack<T, W> b) {
  using bits_type = typename lane_mask<T, W>::bits_type;
  if constexpr (W == 1) {
    return {a.lanes > b.lanes ? bits_type(-1) : bits_type(0)};
  } else {
    return {(bits_type)(a.lanes > b.lanes)};
  }
}

template <class T, int W>
lane_mask<T, W> differs(pack<T, W> a, pack<T, W> b) {
  using bits_type = typename lane_mask<T, W>::bits_type;
  if constexpr (W == 1) {
    return {a.lanes != b.lanes ? bits_type(-1) : bits_type(0)};
  } else {
    return {(bits_type)(a.lanes != b.lanes)};
  }
}

/// a where the mask is set, b elsewhere.
template <class T, int W>
pack<T, W> select(lane_mask<T, W> mask, pack<T, W> a, pack<T, W> b) {
  return pack<T, W>::from(mask.bits ? a.lanes : b.lanes);
}

template <class T, int W>
pack<T, W> sqrt(pack<T, W> x) {
  if constexpr (W == 1) {
    return pack<T, W>(sycl::sqrt(x.lanes));
  } else {
#if __has_builtin(__builtin_elementwise_sqrt)  // vector types have no std function
    return pack<T, W>::from(__builtin_elementwise_sqrt(x.lanes));
#else  // GCC and older Clang: lane by lane
    for (int lane = 0; lane < W; ++lane) x.set(lane, sycl::sqrt(x[lane]));
    return x;
#endif
  }
}

/// |x| with the sign of y; a zero counts as positive.
template <class T, int W>
pack<T, W> with_sign_of(pack<T, W> x, pack<T, W> y) {
  const pack<T, W> magnitude = abs(x);
  return select(greater(pack<T, W>(0), y), -magnitude, magnitude);
}

}  // namespace nullscope::kernels

/// Instructions of AVX-512 on packs that fill its registers, which neither C++ nor SYCL has a name for.
#pragma once

#include "pack.hpp"

namespace nullscope::kernels::detail {

/// Whether the functions below are there.
template <class T, int W>
constexpr bool has_avx512() {
#ifdef NULLSCOPE_AVX512_DEVICE
  return W * sizeof(T) == 64;
#else
  return false;
#endif
}

/// x 2^n, the fraction of n cut off towards -infinity, rounded once.
template <class T, int W>
pack<T, W> scaled_at_once(pack<T, W> x, [[maybe_unused]] pack<T, W> n) {
#ifdef NULLSCOPE_AVX512_DEVICE
  if constexpr (sizeof(T) == 4) {
    asm("vscalefps %2, %1, %0" : "=v"(x.lanes) : "v"(x.lanes), "v"(n.lanes));
  } else {
    asm("vscalefpd %2, %1, %0" : "=v"(x.lanes) : "v"(x.lanes), "v"(n.lanes));
  }
#endif
  return x;
}

/// The smaller one of |x| and limit, which is not negative; limit where x is NaN.
template <class T, int W>
pack<T, W> limited_size(pack<T, W> x, [[maybe_unused]] pack<T, W> limit) {
#ifdef NULLSCOPE_AVX512_DEVICE
  if constexpr (sizeof(T) == 4) {
    asm("vrangeps $10, %2, %1, %0" : "=v"(x.lanes) : "v"(x.lanes), "v"(limit.lanes));
  } else {
    asm("vrangepd $10, %2, %1, %0" : "=v"(x.lanes) : "v"(x.lanes), "v"(limit.lanes));
  }
#endif
  return x;
}

/// In each lane the lane of x whose number stands in the low bits of `number`.
template <int W>
pack<double, W> lane_chosen(pack<double, W> x, [[maybe_unused]] pack<double, W> number) {
#ifdef NULLSCOPE_AVX512_DEVICE
  asm("vpermpd %1, %2, %0" : "=v"(x.lanes) : "v"(x.lanes), "v"(number.lanes));
#endif
  return x;
}

}  // namespace nullscope::kernels::detail

/// Instructions of x86 for which neither C++ nor SYCL has a name.
#pragma once

#include "kernels/simd/pack.hpp"

namespace nullscope::kernels {

/// Prefetches the cache line at `from`, which may be any address, on devices that have the instruction: into the
/// second-level cache, which can wait for more lines than the first. (SYCL's own prefetch is a function call, and goes
/// to the first: no gain.)
template <class T>
void fetch([[maybe_unused]] const T* from) {
#ifdef NULLSCOPE_X86_DEVICE
  asm volatile("prefetcht2 (%0)" : : "r"(from));
#endif
}

/// Whether x < y in any lane.
template <class T, int W>
bool any_less(pack<T, W> x, pack<T, W> y) {
  if constexpr (W == 1) {
    return x.lanes < y.lanes;
  } else {
#ifdef NULLSCOPE_AVX_DEVICE
    if constexpr (W * sizeof(T) == 32) {
      int signs;
      asm("vmovmskps %1, %0" : "=r"(signs) : "x"(x.lanes < y.lanes));
      return signs != 0;
    }
#endif
    const bool in_low = any_less(low(x), low(y)), in_high = any_less(high(x), high(y));
    return in_low || in_high;
  }
}

// AVX-512, for packs that fill its registers.

namespace detail {

/// Whether the functions below are available.
template <class T, int W>
constexpr bool has_avx512() {
#ifdef NULLSCOPE_AVX512_DEVICE
  return W * sizeof(T) == 64;
#else
  return false;
#endif
}

/// x 2^floor(n), rounded once.
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

/// In each lane, the lane of x whose index is in the low bits of `number`.
template <int W>
pack<double, W> lane_chosen(pack<double, W> x, [[maybe_unused]] pack<double, W> number) {
#ifdef NULLSCOPE_AVX512_DEVICE
  asm("vpermpd %1, %2, %0" : "=v"(x.lanes) : "v"(x.lanes), "v"(number.lanes));
#endif
  return x;
}

}  // namespace detail

}  // namespace nullscope::kernels

/// The largest rate of fused multiply-adds that a device reaches: nothing but independent chains in registers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <sycl/sycl.hpp>

#include "kernels/simd/pack.hpp"

namespace nullscope::kernels {

/// Each work-item runs `Chains` chains x <- x * factor + addend of `rounds` steps, on packs of W lanes, and stores the
/// sum of all lanes and chains, so that the compiler can skip nothing. 2 * W * Chains * rounds flops per work-item.
///
/// The chains hide the latency: a CPU core with two units of four cycles needs 8. They must fit the registers: 16 of
/// AVX-512's 32, 12 of AVX2's 16.
template <class T, int W, int Chains>
struct peak_fma {
  static constexpr const char* source = __FILE__;

  T* out;  // (work-items)
  std::int64_t rounds;
  T factor, addend;

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    const pack<T, W> a(factor), b(addend);
    pack<T, W> x[Chains];
    for (int c = 0; c < Chains; ++c) x[c] = pack<T, W>(static_cast<T>(c));
    for (std::int64_t round = 0; round < rounds; ++round) {
      for (int c = 0; c < Chains; ++c) x[c] = fma(x[c], a, b);
    }
    pack<T, W> total = x[0];
    for (int c = 1; c < Chains; ++c) total += x[c];
    out[item.get_global_id(0)] = sum(total);
  }
};

}  // namespace nullscope::kernels

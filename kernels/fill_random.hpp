/// Fills memory with random numbers, one work-item a block of the generator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <sycl/sycl.hpp>

#include "random_numbers.hpp"

namespace nullscope::kernels {

/// out[i] = offset + scale * z_i, with z_i element i of the stream: standard normal, or uniform in (0, 1).
template <class T, bool Normal>
struct fill_random {
  static constexpr const char* source = "fill_random.hpp";
  static constexpr int dimensions = 1;

  T* out;
  std::int64_t count;
  std::uint64_t seed, stream;
  T offset, scale;

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    constexpr int size = numbers_per_block<T>;
    const std::int64_t block_index = static_cast<std::int64_t>(item.get_global_id(0));
    const philox_block block = philox(seed, stream, static_cast<std::uint64_t>(block_index));
    for (int i = 0; i < size; ++i) {
      if (block_index * size + i >= count) return;
      const T z = Normal ? standard_normal<T>(block, i) : unit_uniform<T>(block, i);
      out[block_index * size + i] = sycl::fma(z, scale, offset);
    }
  }
};

}  // namespace nullscope::kernels

/// Fills memory with random numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <sycl/sycl.hpp>

#include "kernels/simd/random_numbers.hpp"

namespace nullscope::kernels {

namespace detail {

/// Lanes of a and b in turn, from lane `First` of both on.
template <int First, class T, int W, int... Lane>
pack<T, W> zipped(pack<T, W> a, pack<T, W> b, std::integer_sequence<int, Lane...>) {
  return pack<T, W>::from(__builtin_shufflevector(a.lanes, b.lanes, ((Lane & 1 ? W : 0) + First + Lane / 2)...));
}

/// to[Count lane + i] = z[i][lane].
template <class T, int W, int Count>
void store_by_lanes(T* to, const pack<T, W> (&z)[Count]) {
  if constexpr (W == 1) {
    for (int i = 0; i < Count; ++i) store(to + i, z[i]);
  } else {
    constexpr auto lanes = std::make_integer_sequence<int, W>{};
    const auto low = [&](auto a, auto b) { return zipped<0>(a, b, lanes); };
    const auto high = [&](auto a, auto b) { return zipped<W / 2>(a, b, lanes); };
    if constexpr (Count == 2) {
      store(to, low(z[0], z[1]));
      store(to + W, high(z[0], z[1]));
    } else {
      static_assert(Count == 4);
      const pack<T, W> even = low(z[0], z[2]), odd = low(z[1], z[3]);
      const pack<T, W> upper_even = high(z[0], z[2]), upper_odd = high(z[1], z[3]);
      store(to, low(even, odd));
      store(to + W, high(even, odd));
      store(to + 2 * W, low(upper_even, upper_odd));
      store(to + 3 * W, high(upper_even, upper_odd));
    }
  }
}

}  // namespace detail

/// out[i] = offset + scale * z_i, with z_i element i of the stream: standard normal, or uniform in (0, 1). The
/// work-items of a group take W neighbouring blocks of the generator each, `rounds` times.
template <class T, bool Normal, int W, int Items>
struct fill_random {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;
  static constexpr std::int64_t size = numbers_per_block<T>;

  T* out;
  std::int64_t count;
  std::uint64_t seed, stream;
  T offset, scale;
  std::int64_t rounds;

  static constexpr std::int64_t numbers_per_group(std::int64_t rounds) { return rounds * Items * W * size; }

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    std::int64_t block = (static_cast<std::int64_t>(item.get_group(0)) * rounds * Items +
                          static_cast<std::int64_t>(item.get_local_id(0))) *
                         W;
    for (std::int64_t round = 0; round < rounds && block * size < count; ++round, block += Items * W) {
      pack<T, W> z[size];
      numbers_of_blocks<Normal>(seed, stream, static_cast<std::uint64_t>(block), z);
      for (pack<T, W>& number : z) number = fma_once(number, pack<T, W>(scale), pack<T, W>(offset));
      if ((block + W) * size <= count) {
        detail::store_by_lanes(out + block * size, z);
      } else {
        for (std::int64_t i = block * size; i < count; ++i) {
          out[i] = z[i % size][static_cast<int>(i / size - block)];
        }
      }
    }
  }
};

}  // namespace nullscope::kernels

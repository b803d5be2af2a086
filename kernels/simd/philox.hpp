/// Philox 4x32-10, a counter-based random generator (Salmon et al. 2011): block number and key in, 128 random bits out.
/// Any element of a stream can be had without those before it, so the numbers do not depend on the launch shape.
#pragma once

#include <cstdint>

#include "kernels/simd/pack.hpp"

namespace nullscope::kernels {

/// Words of 32 bits, each in a lane of 64, where products need no other place.
template <int W>
using philox_word = detail::lanes_t<std::uint64_t, W>;

/// W blocks of four words, one a lane.
template <int W>
struct philox_blocks {
  philox_word<W> word[4];
};

/// The blocks number `first` and on of a stream. `seed` is the key; `stream` and the number are the counter.
template <int W>
philox_blocks<W> philox(std::uint64_t seed, std::uint64_t stream, std::uint64_t first) {
  using words = pack<std::uint64_t, W>;
  constexpr std::uint64_t mask = 0xffffffff;
  words number(first);
  for (int lane = 1; lane < W; ++lane) number.set(lane, first + static_cast<std::uint64_t>(lane));
  philox_word<W> c0 = number.lanes & mask, c1 = number.lanes >> 32;
  philox_word<W> c2 = words(stream & mask).lanes, c3 = words(stream >> 32).lanes;
  std::uint32_t k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const philox_word<W> p0 = c0 * std::uint64_t{0xD2511F53}, p1 = c2 * std::uint64_t{0xCD9E8D57};
    c0 = (p1 >> 32) ^ c1 ^ std::uint64_t{k0};
    c2 = (p0 >> 32) ^ c3 ^ std::uint64_t{k1};
    c1 = p1 & mask;
    c3 = p0 & mask;
    k0 += 0x9E3779B9u;  // golden ratio
    k1 += 0xBB67AE85u;  // sqrt(3) - 1
  }
  return {{c0, c1, c2, c3}};
}

}  // namespace nullscope::kernels

/// Philox 4x32-10, a counter-based random generator (Salmon et al. 2011): block number and key in, 128 random bits out.
/// Any element of a stream can be had without those before it, so the numbers do not depend on the launch shape.
#pragma once

#include <cstdint>

namespace nullscope::kernels {

struct philox_block {
  std::uint32_t word[4];
};

/// The 128 bits of one block of a stream. `seed` is the key; `stream` and `block` are the counter.
inline philox_block philox(std::uint64_t seed, std::uint64_t stream, std::uint64_t block) {
  std::uint32_t c0 = static_cast<std::uint32_t>(block), c1 = static_cast<std::uint32_t>(block >> 32);
  std::uint32_t c2 = static_cast<std::uint32_t>(stream), c3 = static_cast<std::uint32_t>(stream >> 32);
  std::uint32_t k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c0;
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c2;
    c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<std::uint32_t>(p1);
    c3 = static_cast<std::uint32_t>(p0);
    k0 += 0x9E3779B9u;  // golden ratio
    k1 += 0xBB67AE85u;  // sqrt(3) - 1
  }
  return {{c0, c1, c2, c3}};
}

}  // namespace nullscope::kernels

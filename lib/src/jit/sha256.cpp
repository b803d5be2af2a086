#include "lib/src/jit/sha256.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nullscope/core/errors.hpp>
#include <system_error>
#include <vector>

namespace nullscope::detail {

namespace {

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
constexpr std::array<std::uint32_t, 64> round_constants{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::uint32_t big_endian(const std::byte* bytes) {
  std::uint32_t word = 0;
  for (int i = 0; i < 4; ++i) word = word << 8 | std::to_integer<std::uint32_t>(bytes[i]);
  return word;
}

}  // namespace

void sha256::add_block(const std::byte* block) {
  std::array<std::uint32_t, 64> words;
  for (std::size_t i = 0; i < 16; ++i) words[i] = big_endian(block + 4 * i);
  for (std::size_t i = 16; i < words.size(); ++i) {
    const std::uint32_t early = words[i - 15], late = words[i - 2];
    words[i] = words[i - 16] + (std::rotr(early, 7) ^ std::rotr(early, 18) ^ early >> 3) + words[i - 7] +
               (std::rotr(late, 17) ^ std::rotr(late, 19) ^ late >> 10);
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::uint32_t choice = (e & f) ^ (~e & g), majority = (a & b) ^ (a & c) ^ (b & c);
    const std::uint32_t first =
        h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + choice + round_constants[i] + words[i];
    const std::uint32_t second = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + majority;
    h = g;
    g = f;
    f = e;
    e = d + first;
    d = c;
    c = b;
    b = a;
    a = first + second;
  }
  const std::array<std::uint32_t, 8> sums{a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < sums.size(); ++i) state_[i] += sums[i];
}

void sha256::add(std::span<const std::byte> bytes) {
  byte_count_ += bytes.size();
  while (!bytes.empty()) {
    if (pending_count_ == 0 && bytes.size() >= block_size) {
      add_block(bytes.data());
      bytes = bytes.subspan(block_size);
      continue;
    }
    const std::size_t count = std::min(bytes.size(), block_size - pending_count_);
    std::memcpy(pending_.data() + pending_count_, bytes.data(), count);
    pending_count_ += count;
    bytes = bytes.subspan(count);
    if (pending_count_ == block_size) {
      add_block(pending_.data());
      pending_count_ = 0;
    }
  }
}

std::string sha256::finish() {
  const std::uint64_t bit_count = 8 * byte_count_;
  std::vector<std::byte> tail(1, std::byte{0x80});
  while ((pending_count_ + tail.size() + 8) % block_size != 0) tail.push_back(std::byte{0});
  for (int shift = 56; shift >= 0; shift -= 8) tail.push_back(static_cast<std::byte>(bit_count >> shift & 0xff));
  add(tail);
  std::string digest;
  for (const std::uint32_t word : state_) digest += fmt::format("{:08x}", word);
  return digest;
}

std::string sha256_of_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  sha256 digest;
  std::vector<char> block(1 << 20);
  while (file) {
    file.read(block.data(), std::ssize(block));
    digest.add(std::as_bytes(std::span(block.data(), static_cast<std::size_t>(file.gcount()))));
  }
  if (!file.eof()) {
    throw file_error(fmt::format("cannot read {}: {}", path.string(), std::generic_category().message(errno)));
  }
  return digest.finish();
}

}  // namespace nullscope::detail

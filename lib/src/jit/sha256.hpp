/// SHA-256 (FIPS 180-4), to check what was fetched.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace nullscope::detail {

class sha256 {
 public:
  void add(std::span<const std::byte> bytes);

  /// The digest of all bytes added, in hexadecimal. Nothing can be added afterwards.
  std::string finish();

 private:
  static constexpr std::size_t block_size = 64;
  void add_block(const std::byte* block);

  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, block_size> pending_;
  std::size_t pending_count_ = 0;
  std::uint64_t byte_count_ = 0;
};

/// Of a whole file. Throws file_error.
std::string sha256_of_file(const std::filesystem::path& path);

}  // namespace nullscope::detail

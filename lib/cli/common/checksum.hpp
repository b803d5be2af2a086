/// Checksums that tell models, files and texts apart. They recognise what was computed before; they keep no secret.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace nullscope::cli {

/// FNV-1a, on words of eight bytes.
class checksum {
 public:
  void add(const void* bytes, std::size_t size);
  void add(std::uint64_t number) { add(&number, sizeof(number)); }

  /// With its length: "ab" and "c" are not "a" and "bc".
  void add_text(std::string_view text);

  /// The content of a file. Throws file_error.
  void add_file(const std::filesystem::path& path);

  /// The files that make a model what it is: config.json, weights and tokenizer. Throws file_error.
  void add_model(const std::filesystem::path& folder);

  std::string text() const;

 private:
  std::uint64_t value_ = 0xcbf29ce484222325;
};

std::string checksum_of_file(const std::filesystem::path& path);
std::string checksum_of_model(const std::filesystem::path& folder);

}  // namespace nullscope::cli

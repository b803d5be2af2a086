/// Files that are either whole or not there at all.
#pragma once

#include <filesystem>
#include <string_view>

namespace nullscope::cli {

/// An open file that closes itself.
class file_handle {
 public:
  file_handle() = default;
  /// `flags` as open(2) takes them. Throws file_error with the path and the reason.
  file_handle(const std::filesystem::path& path, int flags);
  file_handle(file_handle&& other) noexcept : number_(other.number_) { other.number_ = -1; }
  file_handle& operator=(file_handle&& other) noexcept;
  ~file_handle();

  int number() const { return number_; }

  /// Writes all of the text, and waits until it has reached the disk. Throws file_error.
  void write_to_disk(const std::filesystem::path& path, std::string_view text);

 private:
  int number_ = -1;
};

/// Replaces the file by one with this content: whoever looks sees the old file or the new one, never a part. Throws
/// file_error and leaves the old file as it was.
void write_atomically(const std::filesystem::path& path, std::string_view text);

/// The whole file. Throws file_error.
std::string read_file(const std::filesystem::path& path);

}  // namespace nullscope::cli

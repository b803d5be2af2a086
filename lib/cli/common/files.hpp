/// Files that are read as a whole, and files that are on the disk when a write returns.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace nullscope::cli {

/// An open file that closes itself.
class file_handle {
 public:
  file_handle() = default;
  /// `flags` are those of open(2). Throws file_error with the path and the reason.
  file_handle(const std::filesystem::path& path, int flags);
  file_handle(file_handle&& other) noexcept : number_(other.number_) { other.number_ = -1; }
  file_handle& operator=(file_handle&& other) noexcept;
  ~file_handle();

  int number() const { return number_; }

  /// Writes all of the text and waits until it is on the disk. Throws file_error.
  void write_to_disk(const std::filesystem::path& path, std::string_view text);

 private:
  int number_ = -1;
};

/// The whole file. Throws file_error.
std::string read_file(const std::filesystem::path& path);

}  // namespace nullscope::cli

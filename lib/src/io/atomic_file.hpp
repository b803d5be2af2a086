/// Files that are replaced as a whole: a reader, or a crash at any moment, finds the old file or the new one, never a
/// part. The content goes to a temporary file in the same folder, which is synchronised to the disk and then renamed.
///
///   write_atomically("report.csv", text);
///
///   atomic_file file("numbers.bin");        // in pieces
///   file.write(head);
///   file.write(std::as_bytes(numbers));
///   file.commit();
///
/// Every error is a file_error with the path and the system's reason; the old file is then untouched.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>

namespace nullscope {

/// A new content for a file. Without `commit` the destructor drops it, and the file stays as it is.
class atomic_file {
 public:
  /// Creates the temporary file. A symbolic link stays a link: the file that it points to is replaced. The permissions
  /// of a file that is replaced are kept. Throws file_error if `path` exists and is not a regular file.
  explicit atomic_file(std::filesystem::path path);
  ~atomic_file();
  atomic_file(const atomic_file&) = delete;
  atomic_file& operator=(const atomic_file&) = delete;

  /// Appends to the new content.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }

  /// Replaces the file by the new content. Nothing can be written afterwards.
  void commit();

 private:
  [[noreturn]] void fail() const;

  std::filesystem::path path_, target_, temporary_;  // as the caller gave it; what links lead to; what is written
  std::optional<unsigned> permissions_;              // of the file that is replaced
  int descriptor_ = -1;
};

/// Replaces the file by one with this text.
void write_atomically(const std::filesystem::path& path, std::string_view text);

}  // namespace nullscope

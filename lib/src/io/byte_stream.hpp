/// A text file, byte by byte.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace nullscope::detail {

/// Reads a large block at a time. Skips a UTF-8 mark at the beginning; throws file_error on one of UTF-16, and if
/// reading fails.
class byte_stream {
 public:
  static constexpr int end_of_file = -1;

  explicit byte_stream(const std::filesystem::path& path);
  ~byte_stream();
  byte_stream(const byte_stream&) = delete;
  byte_stream& operator=(const byte_stream&) = delete;

  /// The next byte, or end_of_file, without taking it.
  int peek() {
    if (position_ == filled_) fill();
    return position_ == filled_ ? end_of_file : static_cast<unsigned char>(block_[position_]);
  }

  /// The same, taking it.
  int get() {
    const int byte = peek();
    if (byte != end_of_file) ++position_;
    if (byte == '\n') ++line_;
    return byte;
  }

  /// Appends the bytes up to the next one of `stops` or the end, which is not taken.
  void append_until(std::string_view stops, std::string& text);

  /// The line of the next byte, counted from 1.
  std::int64_t line() const { return line_; }

  const std::string& name() const { return name_; }

 private:
  void fill();

  std::string name_;
  int descriptor_;
  std::vector<char> block_;
  std::size_t position_ = 0, filled_ = 0;
  std::int64_t line_ = 1;
};

}  // namespace nullscope::detail

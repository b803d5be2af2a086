#include "lib/src/io/byte_stream.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nullscope/core/errors.hpp>
#include <string_view>
#include <system_error>

namespace nullscope::detail {

namespace {

constexpr std::size_t block_size = 1 << 18;

[[noreturn]] void cannot_read(const std::string& name, int reason) {
  throw file_error(fmt::format("cannot read {}: {}", name, std::generic_category().message(reason)));
}

}  // namespace

byte_stream::byte_stream(const std::filesystem::path& path)
    : name_(path.string()), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), block_(block_size) {
  if (descriptor_ < 0) cannot_read(name_, errno);
  try {
    fill();
    const std::string_view beginning(block_.data(), filled_);
    if (beginning.starts_with("\xef\xbb\xbf")) {
      position_ = 3;
    } else if (beginning.starts_with("\xff\xfe") || beginning.starts_with("\xfe\xff")) {
      throw file_error(fmt::format("{}: the file is UTF-16, expected UTF-8", name_));
    }
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

byte_stream::~byte_stream() { ::close(descriptor_); }

/// Leaves the block empty at the end of the file. Fills it as far as it can, since a pipe gives a few bytes at a time.
void byte_stream::fill() {
  position_ = filled_ = 0;
  while (filled_ < block_.size()) {
    const ssize_t count = ::read(descriptor_, block_.data() + filled_, block_.size() - filled_);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) cannot_read(name_, errno);
    if (count == 0) break;
    filled_ += static_cast<std::size_t>(count);
  }
}

void byte_stream::append_until(std::string_view stops, std::string& text) {
  while (peek() != end_of_file) {
    const auto begin = block_.begin() + static_cast<std::ptrdiff_t>(position_);
    const auto filled_end = block_.begin() + static_cast<std::ptrdiff_t>(filled_);
    const auto end = std::find_first_of(begin, filled_end, stops.begin(), stops.end());
    text.append(begin, end);
    line_ += std::count(begin, end, '\n');
    position_ += static_cast<std::size_t>(end - begin);
    if (end != filled_end) return;
  }
}

}  // namespace nullscope::detail

#include "lib/cli/common/files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nullscope/core/errors.hpp>
#include <utility>

namespace nullscope::cli {
namespace {

[[noreturn]] void fail(std::string_view what, const std::filesystem::path& path) {
  throw file_error(fmt::format("{} {}: {}", what, path.string(), std::strerror(errno)));
}

}  // namespace

file_handle::file_handle(const std::filesystem::path& path, int flags)
    : number_(open(path.c_str(), flags | O_CLOEXEC, 0666)) {
  if (number_ < 0) fail("cannot open", path);
}

file_handle& file_handle::operator=(file_handle&& other) noexcept {
  std::swap(number_, other.number_);
  return *this;
}

file_handle::~file_handle() {
  if (number_ >= 0) close(number_);
}

void file_handle::write_to_disk(const std::filesystem::path& path, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(number_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("cannot write", path);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  // Pipes and devices cannot be synchronised, and do not need it.
  if (fdatasync(number_) != 0 && errno != EINVAL && errno != EROFS) fail("cannot write", path);
}

std::string read_file(const std::filesystem::path& path) {
  if (std::filesystem::is_directory(path)) {
    errno = EISDIR;
    fail("cannot read", path);
  }
  std::ifstream file(path, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(file), {});
  if (!file) fail("cannot read", path);
  return text;
}

}  // namespace nullscope::cli

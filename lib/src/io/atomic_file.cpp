#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <nullscope/core/errors.hpp>
#include <string>
#include <system_error>
#include <utility>
#include "lib/src/io/atomic_file.hpp"

namespace nullscope {
namespace {

[[noreturn]] void fail_to_write(const std::filesystem::path& path, int reason) {
  throw file_error(fmt::format("cannot write {}: {}", path.string(), std::generic_category().message(reason)));
}

/// The file that links lead to. Throws if it exists and is not a regular file: renaming over a device would replace it.
std::filesystem::path resolved_target(const std::filesystem::path& path) {
  std::error_code failure;
  std::filesystem::path target = path;
  constexpr int most_links = 40;  // as many as the system follows
  for (int links = 0; links < most_links && std::filesystem::is_symlink(target, failure); ++links) {
    target = target.parent_path() / std::filesystem::read_symlink(target, failure);
  }
  if (std::filesystem::is_symlink(target, failure)) fail_to_write(path, ELOOP);
  const std::filesystem::file_status status = std::filesystem::status(target, failure);
  if (std::filesystem::is_directory(status)) fail_to_write(path, EISDIR);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    throw file_error(fmt::format("cannot write {}: not a regular file", path.string()));
  }
  return target;
}

}  // namespace

atomic_file::atomic_file(std::filesystem::path path) : path_(std::move(path)), target_(resolved_target(path_)) {
  static std::atomic<unsigned> count = 0;
  struct stat before;
  if (::stat(target_.c_str(), &before) == 0) permissions_ = before.st_mode & 0777;
  do {
    temporary_ = target_.parent_path() / fmt::format(".nullscope-{}-{}.partial", ::getpid(), ++count);
    // Until `commit` nobody else can read what replaces a file that may be private.
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, permissions_ ? 0600 : 0666);
  } while (descriptor_ < 0 && errno == EEXIST);
  if (descriptor_ < 0) fail();
}

atomic_file::~atomic_file() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void atomic_file::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) fail();
    if (written > 0) bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void atomic_file::commit() {
  if (permissions_ && ::fchmod(descriptor_, *permissions_) != 0) fail();
  if (::fsync(descriptor_) != 0) fail();
  if (::close(std::exchange(descriptor_, -1)) != 0) fail();
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail();
  temporary_.clear();
}

void atomic_file::fail() const { fail_to_write(path_, errno); }

void write_atomically(const std::filesystem::path& path, std::string_view text) {
  atomic_file file(path);
  file.write(text);
  file.commit();
}

}  // namespace nullscope

#include "lib/src/jit/kernel_cache.hpp"

#ifndef NULLSCOPE_SINGLE_SOURCE

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <system_error>
#include <utility>

#include "lib/src/core/user_cache.hpp"

namespace nullscope::detail {
namespace {

namespace fs = std::filesystem;

/// When the files together are larger than this, the oldest go until half of it is left.
constexpr std::uintmax_t most_bytes = std::uintmax_t{1} << 30;

fs::path chosen_folder() {
  if (const char* chosen = std::getenv("NULLSCOPE_KERNEL_CACHE")) return fs::path(chosen);
  const std::optional<fs::path> cache = user_cache_folder();
  return cache ? *cache / "kernels" : fs::path();
}

std::vector<char> content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

kernel_cache::kernel_cache() : folder_(chosen_folder()) {
  std::error_code error;
  if (is_on()) fs::create_directories(folder_, error);
  if (error) folder_.clear();
}

std::vector<kernel_cache::group> kernel_cache::find(std::span<const std::string> keys) const {
  std::map<std::pair<dev_t, ino_t>, std::vector<std::size_t>> by_file;
  for (std::size_t i = 0; is_on() && i < keys.size(); ++i) {
    struct stat status {};
    if (stat(path_of(keys[i]).c_str(), &status) == 0) by_file[{status.st_dev, status.st_ino}].push_back(i);
  }
  std::vector<group> groups;
  for (auto& [file, members] : by_file) {
    const fs::path path = path_of(keys[members[0]]);
    std::vector<char> content = content_of(path);
    if (content.empty()) continue;
    utimensat(AT_FDCWD, path.c_str(), nullptr, 0);  // it is in use: others go first when space is short
    groups.push_back({std::move(content), std::move(members)});
  }
  return groups;
}

void kernel_cache::store(std::span<const std::string> keys, std::span<const char> content) const {
  if (!is_on() || content.empty() || keys.empty()) return;
  std::string temporary = folder_ / "new-XXXXXX";
  const int descriptor = mkstemp(temporary.data());
  if (descriptor < 0) return;
  fchmod(descriptor, S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH);  // who may look into the folder may read the kernels
  bool is_written = true;
  for (std::size_t done = 0; done < content.size() && is_written;) {
    const ssize_t count = write(descriptor, content.data() + done, content.size() - done);
    is_written = count > 0;
    if (is_written) done += static_cast<std::size_t>(count);
  }
  is_written &= close(descriptor) == 0;
  for (std::size_t i = 0; i < keys.size() && is_written; ++i) {
    std::error_code error;
    fs::create_hard_link(temporary, path_of(keys[i]), error);
    if (!error || error == std::errc::file_exists) continue;
    fs::copy_file(temporary, temporary + "-copy", error);  // a file system without links
    if (!error) fs::rename(temporary + "-copy", path_of(keys[i]), error);
  }
  std::error_code ignored;
  fs::remove(temporary, ignored);
  remove_oldest();
}

void kernel_cache::remove(const std::string& key) const {
  std::error_code ignored;
  if (is_on()) fs::remove(path_of(key), ignored);
}

void kernel_cache::remove_oldest() const {
  struct entry {
    fs::file_time_type time;
    std::uintmax_t bytes;
    fs::path path;
  };
  std::vector<entry> entries;
  std::uintmax_t total = 0;
  std::error_code ignored;
  for (const fs::directory_entry& file : fs::directory_iterator(folder_, ignored)) {
    if (!file.is_regular_file(ignored)) continue;
    // Of a content with several names, each counts a part.
    const std::uintmax_t links = std::max<std::uintmax_t>(1, file.hard_link_count(ignored));
    entries.push_back({file.last_write_time(ignored), file.file_size(ignored) / links, file.path()});
    total += entries.back().bytes;
  }
  if (total <= most_bytes) return;
  std::ranges::sort(entries, {}, &entry::time);
  for (const entry& oldest : entries) {
    if (total <= most_bytes / 2) return;
    fs::remove(oldest.path, ignored);
    total -= oldest.bytes;
  }
}

}  // namespace nullscope::detail

#endif

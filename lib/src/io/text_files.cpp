#include "lib/src/io/text_files.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <system_error>

namespace nullscope::detail {

namespace {

[[noreturn]] void cannot_read(const std::filesystem::path& path, int reason) {
  throw file_error(fmt::format("cannot read {}: {}", path.string(), std::generic_category().message(reason)));
}

}  // namespace

std::string read_file(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) cannot_read(path, EISDIR);
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) cannot_read(path, errno);
  std::string text(std::istreambuf_iterator<char>(file), {});
  if (file.bad()) cannot_read(path, errno);
  return text;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  constexpr std::string_view utf8_mark = "\xef\xbb\xbf";
  if (text.starts_with(utf8_mark)) text.remove_prefix(utf8_mark.size());
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
  }
  return lines;
}

}  // namespace nullscope::detail

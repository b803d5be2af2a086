#include "lib/cli/common/checksum.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <nullscope/core/errors.hpp>
#include <system_error>
#include <vector>

namespace nullscope::cli {
namespace {

/// By name: other files in the folder, such as results that were written there, do not change the model.
bool belongs_to_model(const std::string& name) {
  constexpr std::array<std::string_view, 7> beginnings{"config.json", "model",        "tokenizer",     "vocab",
                                                       "merges",      "added_tokens", "special_tokens"};
  return std::ranges::any_of(beginnings, [&](std::string_view beginning) { return name.starts_with(beginning); });
}

}  // namespace

void checksum::add(const void* bytes, std::size_t size) {
  for (std::size_t at = 0; at < size; at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, static_cast<const char*>(bytes) + at, std::min(sizeof(word), size - at));
    value_ = (value_ ^ word) * 0x100000001b3;
  }
}

void checksum::add_text(std::string_view text) {
  add(text.size());
  add(text.data(), text.size());
}

void checksum::add_file(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored)) {
    // A pipe can be read once: what reads it afterwards would find nothing.
    throw file_error(fmt::format("{} is not a regular file, which is needed to recognise it", path.string()));
  }
  std::vector<char> block(std::size_t{1} << 20);
  std::ifstream file(path, std::ios::binary);
  if (!file) throw file_error(fmt::format("cannot read {}", path.string()));
  while (file.read(block.data(), static_cast<std::streamsize>(block.size())), file.gcount() > 0) {
    add(block.data(), static_cast<std::size_t>(file.gcount()));
  }
}

void checksum::add_model(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code failure;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failure)) {
    if (belongs_to_model(entry.path().filename().string()) && entry.is_regular_file(failure)) {
      files.push_back(entry.path());
    }
  }
  if (failure) throw file_error(fmt::format("cannot read {}: {}", folder.string(), failure.message()));
  std::ranges::sort(files);
  for (const std::filesystem::path& path : files) add_file(path);
}

std::string checksum::text() const { return fmt::format("{:016x}", value_); }

std::string checksum_of_file(const std::filesystem::path& path) {
  checksum sum;
  sum.add_file(path);
  return sum.text();
}

std::string checksum_of_model(const std::filesystem::path& folder) {
  checksum sum;
  sum.add_model(folder);
  return sum.text();
}

}  // namespace nullscope::cli

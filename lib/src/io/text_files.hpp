/// Whole files as text, as lines or as JSON.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <nullscope/errors.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace nullscope::detail {

/// Throws file_error with the path and the system's reason.
std::string read_file(const std::filesystem::path& path);

/// The lines without their ends, LF or CRLF; a mark of UTF-8 at the beginning is skipped.
std::vector<std::string_view> lines_of(std::string_view text);

/// What read(json) makes of the file. Throws file_error if the file is not JSON, or if `read` finds that something in
/// it is missing or has the wrong type.
template <class Read>
auto read_json(const std::filesystem::path& path, Read read) {
  const std::string text = read_file(path);
  try {
    return read(nlohmann::json::parse(text));
  } catch (const nlohmann::json::exception& reason) {
    throw file_error(path.string() + ": " + reason.what());
  }
}

}  // namespace nullscope::detail

/// Whole files as text or as lines.
#pragma once

#include <filesystem>
#include <nullscope/core/errors.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace nullscope::detail {

/// Throws file_error with the path and the system's reason.
std::string read_file(const std::filesystem::path& path);

/// The lines without their ends, LF or CRLF; a mark of UTF-8 at the beginning is skipped.
std::vector<std::string_view> lines_of(std::string_view text);

}  // namespace nullscope::detail

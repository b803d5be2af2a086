/// What `nullscope explain` found out about the text of a page.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "lib/cli/common/text_input.hpp"

namespace nullscope::cli {

/// {method, label, scores}: the linearised scores of SLALOM, or the attributions of another method, one per token, null
/// where there is none. Throws file_error if the file is not an explain.json, or has no explanation of this text.
nlohmann::ordered_json read_explanation(const std::filesystem::path& file, const input_text& text);

}  // namespace nullscope::cli

/// What nullscope hta writes: the safetensors file and the report.
#pragma once

#include <nlohmann/json.hpp>
#include <nullscope/attribution/hidden_token_attribution.hpp>
#include <vector>

#include "lib/cli/hta/hta_settings.hpp"

namespace nullscope::cli {

/// Gathers the tokens of words if the command asks for it, and writes. results[i] is of texts[i]. Throws file_error.
void write_hta(const hta_command& command, const text_source& source, const std::vector<input_text>& texts,
               std::vector<attribution> results, const nlohmann::ordered_json& identity);

/// Writes the report of a file that is finished. Throws file_error.
void write_report_of_file(const hta_command& command, const text_source& source, const std::vector<input_text>& texts,
                          const nlohmann::ordered_json& identity);

/// The files of a report.
output_place place_of_hta_report(const std::filesystem::path& folder);

}  // namespace nullscope::cli

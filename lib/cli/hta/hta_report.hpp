/// What nullscope hta --report writes: tables and charts of the statistics over all texts.
#pragma once

#include <filesystem>
#include <nullscope/attribution/hidden_token_attribution.hpp>
#include <string>
#include <vector>

namespace nullscope::cli {

/// The text that is drawn as heat maps.
struct heat_map_text {
  attribution of;
  std::vector<std::string> tokens;
};

/// Writes own.csv, distance.csv, offset.csv, first_token.csv, classes.csv, report.svg, classes.svg and heat_map.svg;
/// with tags also tags.csv and tags.svg. `title` names model and texts. Throws file_error.
void write_hta_report(const std::filesystem::path& folder, const std::string& title,
                      const attribution_statistics& statistics, const heat_map_text& example);

}  // namespace nullscope::cli

/// The results of nullscope identify: tables and charts.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lib/src/studies/identification_study.hpp"

namespace nullscope::cli {

std::string identify_csv(const std::vector<identification_row>& rows);
nlohmann::ordered_json to_json(const std::vector<identification_summary>& summaries);

/// One line per pair of layers and offset, one column per map and distance.
void print_summaries(const std::string& experiment, const std::vector<identification_summary>& summaries);

/// The chart of an experiment, as in the paper, with bars of one standard deviation.
std::string identify_chart(const std::string& title, const std::string& experiment,
                           const std::vector<identification_summary>& summaries);

}  // namespace nullscope::cli

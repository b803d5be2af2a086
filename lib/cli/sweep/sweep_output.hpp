/// What a sweep prints and writes: the table, sweep.json and sweep_times.csv.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <nullscope/studies/sweep.hpp>
#include <string>
#include <vector>

#include "lib/cli/sweep/sweep_chart.hpp"

namespace nullscope::cli {

/// The header of the table, and one line of it. Kind logits has a table of its own. Standard errors if correlations are
/// estimates.
std::string table_head(sweep_kind kind, bool is_sampled);
std::string table_line(const sweep_summary& summary, bool is_sampled);

/// One line per length and kind.
std::string times_csv(const std::vector<sweep_time>& times);

/// `description` (settings, device, versions) first, then summaries and all rows.
std::string sweep_json(const nlohmann::ordered_json& description, const sweep_settings& settings,
                       const std::vector<sweep_row>& rows);

}  // namespace nullscope::cli

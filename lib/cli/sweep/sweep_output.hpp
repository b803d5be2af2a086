/// What a sweep prints and writes: the table, sweep.csv and sweep.json.
#pragma once

#include <string>
#include <vector>

#include "lib/cli/sweep/sweep_chart.hpp"
#include "lib/cli/sweep/sweep_rows.hpp"
#include "lib/cli/sweep/sweep_settings.hpp"

namespace nullscope::cli {

/// The header of the table, and one line of it. Kind logits has a table of its own. Standard errors, here and below, if
/// correlations are estimates.
std::string table_head(sweep_kind kind, bool is_sampled);
std::string table_line(const sweep_summary& summary, bool is_sampled);

/// One line per head, with its layer if the heads are those of a model. The rows of kind logits go to a separate file.
std::string sweep_csv(const std::vector<sweep_row>& rows, bool is_sampled);
std::string logit_csv(const std::vector<sweep_row>& rows);

/// One line per length and kind.
std::string times_csv(const std::vector<sweep_time>& times);

/// `description` (settings, device, versions) first, then summaries and all rows.
std::string sweep_json(const nlohmann::ordered_json& description, const std::vector<sweep_summary>& summaries,
                       const std::vector<sweep_row>& rows, bool is_sampled);

}  // namespace nullscope::cli

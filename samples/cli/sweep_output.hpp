/// What a sweep shows and writes: the table, sweep.csv and sweep.json.
#pragma once

#include <string>
#include <vector>

#include "sweep_rows.hpp"
#include "sweep_settings.hpp"

namespace nullscope::cli {

/// The heads of the table's columns, and one line of it; logits have columns of their own.
std::string table_head(sweep_kind kind);
std::string table_line(const sweep_summary& summary);

/// One line a head. The rows of kind logits have a file of their own.
std::string sweep_csv(const std::vector<sweep_row>& rows);
std::string logit_csv(const std::vector<sweep_row>& rows);

/// `description` (settings, device, versions) first, then summaries and all rows.
std::string sweep_json(const nlohmann::ordered_json& description, const std::vector<sweep_summary>& summaries,
                       const std::vector<sweep_row>& rows);

}  // namespace nullscope::cli

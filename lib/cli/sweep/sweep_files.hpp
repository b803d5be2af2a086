/// The files of a sweep.
#pragma once

#include <nlohmann/json.hpp>
#include <nullscope/studies/sweep.hpp>
#include <vector>

#include "lib/cli/common/previous_work.hpp"
#include "lib/cli/sweep/sweep_chart.hpp"
#include "lib/cli/sweep/sweep_run.hpp"

namespace nullscope::cli {

output_place place_of_results(const sweep_command& command);

/// `times` are written if the command asks for them. Files of an older sweep that this one does not write are removed.
void write_sweep(const sweep_command& command, const nlohmann::ordered_json& identity,
                 const std::vector<sweep_row>& rows, const std::vector<sweep_time>& times);

}  // namespace nullscope::cli

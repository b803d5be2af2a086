/// The title of a sweep, and the settings that identify its results.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <nullscope/studies/sweep.hpp>
#include <string>

#include "lib/cli/sweep/swept_model.hpp"

namespace nullscope::cli {

/// "d = 512, 8 heads, d_k = 64", after the name and the layers of a model. `model` is null for random heads, here and
/// below.
std::string describe(const sweep_settings& settings, const swept_model* model);

/// Everything that determines the numbers: two sweeps with equal settings write equal files.
nlohmann::ordered_json to_json(const sweep_settings& settings, const swept_model* model);

}  // namespace nullscope::cli

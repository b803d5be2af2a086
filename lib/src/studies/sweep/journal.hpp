/// The rows of a unit as a journal keeps them: JSON without names, and numbers that come back with the same bits.
#pragma once

#include <nlohmann/json.hpp>
#include <nullscope/studies/sweep.hpp>
#include <vector>

namespace nullscope {

/// What `sweep_computer` found, before `finished_rows`.
nlohmann::json to_journal(const std::vector<sweep_row>& rows);

/// The rows of that unit again. Throws nlohmann's errors if it is something else.
std::vector<sweep_row> from_journal(const nlohmann::json& numbers, const sweep_settings& settings,
                                    const sweep_unit& unit);

}  // namespace nullscope

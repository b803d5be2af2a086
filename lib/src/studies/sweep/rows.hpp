/// Rows of a sweep, as the computer makes them.
#pragma once

#include <cstdint>
#include <nullscope/studies/sweep.hpp>

namespace nullscope {

/// A row without results: number i of a unit's length, counted as there.
sweep_row row_of(const sweep_settings& settings, const sweep_unit& unit, std::int64_t i);

}  // namespace nullscope

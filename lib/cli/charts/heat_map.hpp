/// Matrices of contributions as SVG: darker squares for larger numbers, tokens along both sides.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace nullscope::cli {

struct heat_map {
  std::string title;
  std::span<const double> values;  ///< (S, S): rows from top to bottom
};

/// The maps in rows of `columns`. Each has a scale of its own, from 0 to its largest value.
std::string draw_heat_maps(const std::string& title, const std::vector<std::string>& tokens,
                           const std::vector<heat_map>& maps, std::size_t columns);

}  // namespace nullscope::cli

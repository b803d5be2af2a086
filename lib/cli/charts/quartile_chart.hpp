/// Medians and quartiles of many groups as SVG: one row per group, one panel per layer or other condition.
#pragma once

#include <string>
#include <vector>

namespace nullscope::cli {

struct quartile_row {
  std::string name;
  double low, median, high;
};

struct quartile_panel {
  std::string title;
  std::vector<quartile_row> rows;  ///< the same groups in all panels, from top to bottom
};

/// The panels in rows of `columns`, with one scale from 0 to the largest quartile.
std::string draw_quartiles(const std::string& title, const std::string& label,
                           const std::vector<quartile_panel>& panels, std::size_t columns);

}  // namespace nullscope::cli

/// Labels next to the marks of a chart, where there is room.
#pragma once

#include <string>
#include <vector>

namespace nullscope::cli {

struct chart_label {
  std::string text;
  double x, y;  ///< of the mark, in SVG units
};

struct label_area {
  double left, top, right, bottom;
};

/// SVG text for the labels: to the right of the mark, to the left, above or below, wherever it covers no mark and no
/// label before it, and stays in the area. A label without such a place is not drawn: the first ones matter most.
std::string draw_labels(const std::vector<chart_label>& labels, const label_area& area, double mark_radius);

}  // namespace nullscope::cli

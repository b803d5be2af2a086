/// Charts as SVG that a paper can print: panels with axes, points with bars, lines and a legend.
#pragma once

#include <string>
#include <vector>

namespace nullscope::cli {

/// Colours that colour-blind readers can tell apart, also in print (Okabe and Ito).
namespace chart_colour {
inline constexpr const char* blue = "#0072B2";
inline constexpr const char* orange = "#D55E00";
inline constexpr const char* green = "#009E73";
inline constexpr const char* grey = "#555555";
}  // namespace chart_colour

enum class chart_scale {
  linear,
  log2,
  log2_with_zero  ///< log2(1 + x): close to log2, but includes zero
};

struct chart_axis {
  std::string label;
  chart_scale scale = chart_scale::linear;
  double low = 0, high = 1;
};

struct chart_point {
  double x, y;
  double low, high;        ///< of the bar; equal: no bar
  std::string label = {};  ///< next to the mark, if there is room; the first series and points go first
};

enum class chart_mark { circle, square, diamond, line, dashed };

struct chart_series {
  std::string name;  ///< in the legend; empty: not shown
  std::string colour;
  chart_mark mark = chart_mark::circle;
  std::vector<chart_point> points;
};

struct chart_panel {
  std::string title;
  chart_axis x, y;
  std::vector<chart_series> series;  ///< later ones are drawn over earlier ones
};

/// The panels in rows of `columns`, labelled a, b, ..., each with its legend below, where it hides no point.
std::string draw_chart(const std::string& title, const std::vector<chart_panel>& panels, std::size_t columns);

}  // namespace nullscope::cli

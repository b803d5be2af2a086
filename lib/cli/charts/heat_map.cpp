#include "lib/cli/charts/heat_map.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "lib/cli/charts/svg_text.hpp"

namespace nullscope::cli {
namespace {

/// From white to dark blue, evenly by eye.
std::string shade(double share) {
  const double x = std::clamp(share, 0.0, 1.0);
  const auto mix = [&](double dark) { return static_cast<int>(std::lround(255 + (dark - 255) * std::sqrt(x))); };
  return fmt::format("#{:02x}{:02x}{:02x}", mix(8), mix(48), mix(107));
}

}  // namespace

std::string draw_heat_maps(const std::string& title, const std::vector<std::string>& tokens,
                           const std::vector<heat_map>& maps, std::size_t columns) {
  constexpr double margin = 70, title_height = 40, gap = 24;  // in SVG units
  const std::size_t s = tokens.size(), across = std::min(columns, maps.size());
  const double cell = std::clamp(320.0 / static_cast<double>(s), 3.0, 16.0), side = cell * static_cast<double>(s);
  const double width = margin + side + gap, height = margin + side + title_height;
  const bool has_labels = cell >= 7;
  std::string svg;
  const auto print = [&](const std::string& text) { svg += text; };
  print(
      fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{:.0f}\" height=\"{:.0f}\" "
                  "font-family=\"Helvetica, Arial, sans-serif\" font-size=\"{:.1f}\">\n"
                  "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
                  "<text x=\"16\" y=\"22\" font-size=\"15\" font-weight=\"bold\">{}</text>\n",
                  static_cast<double>(across) * width + 16,
                  title_height + std::ceil(static_cast<double>(maps.size()) / static_cast<double>(across)) * height,
                  std::min(cell, 10.0), svg_text(title)));
  for (std::size_t m = 0; m < maps.size(); ++m) {
    const double x0 = margin + static_cast<double>(m % across) * width;
    const double y0 = title_height + margin + static_cast<double>(m / across) * height;
    const double largest = maps[m].values.empty() ? 1 : *std::ranges::max_element(maps[m].values);
    print(fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"12\">{}, up to {:.1f} %</text>\n", x0,
                      y0 + side + 18, svg_text(maps[m].title), 100 * largest));
    for (std::size_t j = 0; j < s; ++j) {
      const double y = y0 + cell * static_cast<double>(j);
      if (has_labels) {
        const std::string token = svg_text(tokens[j]);
        print(fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", x0 - 4, y + 0.8 * cell,
                          token));
        const double x = x0 + cell * (static_cast<double>(j) + 0.8);
        print(fmt::format("<text transform=\"translate({:.1f} {:.1f}) rotate(-90)\">{}</text>\n", x, y0 - 4, token));
      }
      for (std::size_t i = 0; i < s; ++i) {
        const double value = maps[m].values[j * s + i];
        print(fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"/>",
                          x0 + cell * static_cast<double>(i), y, cell, cell, shade(largest > 0 ? value / largest : 0)));
      }
      print("\n");
    }
    print(
        fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"none\" "
                    "stroke=\"black\"/>\n",
                    x0, y0, side, side));
  }
  print("</svg>\n");
  return svg;
}

}  // namespace nullscope::cli

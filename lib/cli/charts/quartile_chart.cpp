#include "lib/cli/charts/quartile_chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "lib/cli/charts/chart.hpp"
#include "lib/cli/charts/svg_text.hpp"

namespace nullscope::cli {
namespace {

/// Steps of 1, 2 or 5 times a power of ten, about five up to `largest`.
double step_of(double largest) {
  const double rough = largest / 5, power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) return factor * power;
  }
  return 10 * power;
}

}  // namespace

std::string draw_quartiles(const std::string& title, const std::string& label,
                           const std::vector<quartile_panel>& panels, std::size_t columns) {
  constexpr double plot_width = 220, gap = 26, top = 34, panel_title = 24, row_height = 15, below = 44;  // in SVG units
  double largest = 1e-6;
  std::size_t longest = 0;
  for (const quartile_panel& panel : panels) {
    for (const quartile_row& row : panel.rows) {
      largest = std::max(largest, row.high);
      longest = std::max(longest, row.name.size());
    }
  }
  largest *= 1.05;
  const std::size_t across = std::min(columns, panels.size()), down = (panels.size() + across - 1) / across;
  const double names = 16 + 6.2 * static_cast<double>(longest);  // width of the longest name
  const double plot_height = row_height * static_cast<double>(panels.front().rows.size());
  const double height = panel_title + plot_height + below;
  std::string svg;
  const auto print = [&]<class... Arguments>(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(svg), format, std::forward<Arguments>(arguments)...);
  };
  print(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "font-family=\"Helvetica, Arial, sans-serif\" font-size=\"11\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
      "<text x=\"16\" y=\"20\" font-size=\"13\" font-weight=\"bold\">{2}</text>\n",
      names + static_cast<double>(across) * (plot_width + gap), top + static_cast<double>(down) * height,
      svg_text(title));
  for (std::size_t p = 0; p < panels.size(); ++p) {
    const double x0 = names + static_cast<double>(p % across) * (plot_width + gap);
    const double y0 = top + static_cast<double>(p / across) * height + panel_title, floor = y0 + plot_height;
    const auto x_of = [&](double value) { return x0 + plot_width * value / largest; };
    print("<text x=\"{:.1f}\" y=\"{:.1f}\" font-weight=\"bold\">{}</text>\n", x0, y0 - 7, svg_text(panels[p].title));
    for (double tick = 0; tick <= largest; tick += step_of(largest)) {
      print("<path d=\"M{:.1f} {:.1f}V{:.1f}\" stroke=\"#e4e4e4\"/>", x_of(tick), y0, floor);
      print("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{:.3g}</text>\n", x_of(tick), floor + 15, tick);
    }
    for (std::size_t r = 0; r < panels[p].rows.size(); ++r) {
      const quartile_row& row = panels[p].rows[r];
      const double y = y0 + row_height * (static_cast<double>(r) + 0.5);
      if (p % across == 0) {
        print("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", x0 - 6, y + 4, svg_text(row.name));
      }
      print("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"9\" fill=\"#9ecae1\"/>", x_of(row.low), y - 4.5,
            std::max(x_of(row.high) - x_of(row.low), 0.5));
      print("<path d=\"M{:.1f} {:.1f}v9\" stroke=\"{}\" stroke-width=\"2\"/>\n", x_of(row.median), y - 4.5,
            chart_colour::orange);
    }
    print("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"none\" stroke=\"black\"/>\n", x0,
          y0, plot_width, plot_height);
    print("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n", x0 + plot_width / 2, floor + 31,
          svg_text(label));
  }
  return svg + "</svg>\n";
}

}  // namespace nullscope::cli

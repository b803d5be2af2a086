#include "lib/cli/charts/chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "lib/cli/charts/chart_labels.hpp"
#include "lib/cli/charts/svg_text.hpp"

namespace nullscope::cli {
namespace {

// Of a panel, in SVG units; one unit is about a third of a millimetre in print.
constexpr double width = 380, height = 340, left = 62, right = 14, top = 34, bottom = 84;
constexpr double plot_width = width - left - right, plot_height = height - top - bottom;
constexpr double legend_step = 16, mark_radius = 3.4;

constexpr double legend_width = 0.94 * plot_width;

std::size_t legend_names(const chart_panel& panel) {
  return static_cast<std::size_t>(
      std::ranges::count_if(panel.series, [](const chart_series& series) { return !series.name.empty(); }));
}

/// Two columns, three for many series; fewer if names are long.
std::size_t legend_columns(const chart_panel& panel) {
  std::size_t longest = 0;
  for (const chart_series& series : panel.series) longest = std::max(longest, series.name.size());
  const double needed = 30 + 5.6 * static_cast<double>(longest);  // the mark, and letters of medium width
  std::size_t columns = legend_names(panel) > 4 ? 3 : 2;
  while (columns > 1 && needed > legend_width / static_cast<double>(columns)) --columns;
  return columns;
}

/// What the legend needs below the two rows that every panel has room for.
double legend_overhang(const chart_panel& panel) {
  const std::size_t columns = legend_columns(panel), rows = (legend_names(panel) + columns - 1) / columns;
  return rows > 2 ? legend_step * static_cast<double>(rows - 2) : 0;
}

double transformed(chart_scale scale, double x) {
  switch (scale) {
    case chart_scale::log2: return std::log2(x);
    case chart_scale::log2_with_zero: return std::log2(1 + x);
    case chart_scale::linear: break;
  }
  return x;
}

/// The position of x on the axis, from 0 to 1; clamped at the ends.
double share(const chart_axis& axis, double x) {
  const double low = transformed(axis.scale, axis.low), high = transformed(axis.scale, axis.high);
  return high > low ? std::clamp((transformed(axis.scale, x) - low) / (high - low), 0.0, 1.0) : 0.5;
}

/// Round numbers, about six.
std::vector<double> linear_ticks(const chart_axis& axis) {
  const double rough = std::max(axis.high - axis.low, 1e-9) / 6, power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double candidate : {5 * power, 2 * power, power}) {
    if (candidate >= rough) step = candidate;
  }
  std::vector<double> ticks;
  const auto first = static_cast<long>(std::ceil(axis.low / step - 1e-9));
  for (long i = first; static_cast<double>(i) * step <= axis.high + 1e-9 * step; ++i) {
    ticks.push_back(static_cast<double>(i) * step);
  }
  return ticks;
}

/// Powers of two, every second or third one if there are many; preceded by zero if the axis includes it.
std::vector<double> power_ticks(const chart_axis& axis) {
  const bool has_zero = axis.scale == chart_scale::log2_with_zero && axis.low <= 0;
  const auto first = static_cast<int>(std::ceil(has_zero ? 1 : std::log2(axis.low) - 1e-9));
  const auto last = static_cast<int>(std::floor(std::log2(axis.high) + 1e-9));
  const int step = std::max(1, (last - first + 8) / 8);
  std::vector<double> ticks;
  if (has_zero) ticks.push_back(0);
  for (int i = last - (last - first) / step * step; i <= last; i += step) ticks.push_back(std::exp2(i));
  return ticks;
}

class panel_writer {
 public:
  panel_writer(const chart_panel& panel, char letter, double x, double y) : panel_(panel) {
    print("<g transform=\"translate({:.0f} {:.0f})\">\n", x, y);
    print("<text x=\"{:.0f}\" y=\"20\" font-size=\"13\"><tspan font-weight=\"bold\">{}</tspan>  {}</text>\n", left - 44,
          letter, svg_text(panel.title));
    axes();
    for (const chart_series& series : panel.series) {
      if (series.mark == chart_mark::line || series.mark == chart_mark::dashed) {
        polyline(series);
      } else {
        points(series);
      }
    }
    labels();
    legend();
    text_ += "</g>\n";
  }

  const std::string& text() const { return text_; }

 private:
  template <class... Arguments>
  void print(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Arguments>(arguments)...);
  }

  double x_of(double x) const { return left + plot_width * share(panel_.x, x); }
  double y_of(double y) const { return top + plot_height * (1 - share(panel_.y, y)); }

  static std::vector<double> ticks(const chart_axis& axis) {
    return axis.scale == chart_scale::linear ? linear_ticks(axis) : power_ticks(axis);
  }

  void axes() {
    const double floor = top + plot_height;
    for (const double tick : ticks(panel_.y)) {
      const double y = y_of(tick);
      print("<path d=\"M{:.1f} {:.1f}h{:.1f}\" stroke=\"#e4e4e4\"/>", left, y, plot_width);
      print("<path d=\"M{:.1f} {:.1f}h-4\" stroke=\"black\"/>", left, y);
      print("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{:.7g}</text>\n", left - 7, y + 4, tick);
    }
    for (const double tick : ticks(panel_.x)) {
      const double x = x_of(tick);
      print("<path d=\"M{:.1f} {:.1f}v4\" stroke=\"black\"/>", x, floor);
      print("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{:.7g}</text>\n", x, floor + 17, tick);
    }
    print("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"none\" stroke=\"black\"/>\n", left,
          top, plot_width, plot_height);
    print("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n", left + plot_width / 2, floor + 37,
          svg_text(panel_.x.label));
    print("<text transform=\"translate({:.1f} {:.1f}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n", left - 44,
          top + plot_height / 2, svg_text(panel_.y.label));
  }

  void polyline(const chart_series& series) {
    if (series.points.empty()) return;
    print("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"1.4\"{} points=\"", series.colour, dashes(series));
    for (const chart_point& point : series.points) print("{:.1f},{:.1f} ", x_of(point.x), y_of(point.y));
    text_ += "\"/>\n";
  }

  static const char* dashes(const chart_series& series) {
    return series.mark == chart_mark::dashed ? " stroke-dasharray=\"5 3\"" : "";
  }

  void points(const chart_series& series) {
    const double radius = std::clamp(0.35 * plot_width / static_cast<double>(series.points.size()), 1.5, mark_radius);
    for (const chart_point& point : series.points) {
      const double x = x_of(point.x), low = y_of(point.low), high = y_of(point.high);
      if (low - high > 0.5) {
        print("<path d=\"M{:.1f} {:.1f}V{:.1f}M{:.1f} {:.1f}h6M{:.1f} {:.1f}h6\" stroke=\"{}\"/>", x, low, high, x - 3,
              low, x - 3, high, series.colour);
      }
      mark(series, radius, x, y_of(point.y));
    }
  }

  void labels() {
    std::vector<chart_label> all;
    for (const chart_series& series : panel_.series) {
      for (const chart_point& point : series.points) {
        if (!point.label.empty()) all.push_back({point.label, x_of(point.x), y_of(point.y)});
      }
    }
    text_ += draw_labels(all, {left, top, left + plot_width, top + plot_height}, mark_radius);
  }

  /// Hollow squares and diamonds, so that circles inside them stay visible where series coincide.
  void mark(const chart_series& series, double r, double x, double y) {
    switch (series.mark) {
      case chart_mark::circle:
        print("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.2f}\" fill=\"{}\"/>\n", x, y, r, series.colour);
        break;
      case chart_mark::square:
        print(
            "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"none\" stroke=\"{}\" "
            "stroke-width=\"1.4\"/>\n",
            x - 1.25 * r, y - 1.25 * r, 2.5 * r, 2.5 * r, series.colour);
        break;
      case chart_mark::diamond:
        print(
            "<path d=\"M{0:.1f} {1:.1f}l{2:.2f} {2:.2f}l-{2:.2f} {2:.2f}l-{2:.2f} -{2:.2f}z\" fill=\"none\" "
            "stroke=\"{3}\" stroke-width=\"1.4\"/>\n",
            x, y - 1.5 * r, 1.5 * r, series.colour);
        break;
      case chart_mark::line:
      case chart_mark::dashed:
        print("<path d=\"M{:.1f} {:.1f}h20\" stroke=\"{}\" stroke-width=\"1.4\"{}/>\n", x - 10, y, series.colour,
              dashes(series));
        break;
    }
  }

  /// Below the axis. Series without a name come last, and are left out.
  void legend() {
    const std::size_t columns = legend_columns(panel_);
    for (std::size_t i = 0; i < panel_.series.size(); ++i) {
      const chart_series& series = panel_.series[i];
      if (series.name.empty()) continue;
      const double x = left + 8 + static_cast<double>(i % columns) * legend_width / static_cast<double>(columns);
      const double y = top + plot_height + 56 + legend_step * static_cast<double>(i / columns);
      mark(series, mark_radius, x + 10, y);
      print("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", x + 26, y + 4, svg_text(series.name));
    }
  }

  const chart_panel& panel_;
  std::string text_;
};

}  // namespace

std::string draw_chart(const std::string& title, const std::vector<chart_panel>& panels, std::size_t columns) {
  const std::size_t rows = (panels.size() + columns - 1) / columns;
  double row_height = height;
  for (const chart_panel& panel : panels) row_height = std::max(row_height, height + legend_overhang(panel));
  const double all_width = width * static_cast<double>(columns), all_height = row_height * static_cast<double>(rows);
  std::string text = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "font-family=\"Helvetica, Arial, sans-serif\" font-size=\"11\">\n"
      "<title>{2}</title>\n<rect width=\"{0:.0f}\" height=\"{1:.0f}\" fill=\"white\"/>\n",
      all_width, all_height, svg_text(title));
  for (std::size_t i = 0; i < panels.size(); ++i) {
    const std::size_t column = i % columns, row = i / columns;
    text += panel_writer(panels[i], static_cast<char>('a' + i), static_cast<double>(column) * width,
                         static_cast<double>(row) * row_height)
                .text();
  }
  return text + "</svg>\n";
}

}  // namespace nullscope::cli

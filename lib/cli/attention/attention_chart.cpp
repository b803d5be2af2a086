#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lib/cli/attention/attention_report.hpp"
#include "lib/cli/charts/chart.hpp"

namespace nullscope::cli {
namespace {

/// The colours of the charts, then the remaining ones of Okabe and Ito; further classes reuse them.
constexpr const char* colours[] = {
    chart_colour::blue, chart_colour::orange, chart_colour::green, chart_colour::grey, "#CC79A7", "#E69F00", "#56B4E9",
    "#000000"};

/// For each text the mean and the lowest correlation of its heads (fig. 1a).
chart_panel correlation_panel(const attention_report& report) {
  chart_series mean{"mean of all heads", chart_colour::blue, chart_mark::circle, {}},
      lowest{"lowest head", chart_colour::orange, chart_mark::circle, {}};
  double longest = 1, low = 0;
  for (const text_attention<float>& text : report.numbers) {
    const double tokens = static_cast<double>(text.tokens);
    double sum = 0, count = 0, least = 1;
    for (const head_numbers<float>& head : text.heads) {
      const double pearson = static_cast<double>(head.pearson);
      if (std::isnan(pearson)) continue;
      sum += pearson;
      ++count;
      least = std::min(least, pearson);
    }
    if (count == 0) continue;
    longest = std::max(longest, tokens);
    low = std::min(low, least);
    mean.points.push_back({tokens, sum / count, sum / count, sum / count});
    lowest.points.push_back({tokens, least, least, least});
  }
  const double d_v = static_cast<double>(report.value_size);
  chart_series limit{fmt::format("d_v = {}", report.value_size), chart_colour::grey, chart_mark::dashed, {}};
  if (d_v <= longest) limit.points = {{d_v, low, low, low}, {d_v, 1, 1, 1}};
  return {"Raw and effective attention, each text",
          {"tokens", chart_scale::linear, 0, 1.02 * longest},
          {"Pearson correlation", chart_scale::linear, low, 1.02},
          {limit, lowest, mean}};
}

/// One series per row of the panel: heads as points, means of layers as lines. `value(head, series)` is NaN where there
/// is none.
template <class Value>
chart_panel layer_panel(const attention_report& report, const std::string& title, const std::vector<std::string>& names,
                        Value value) {
  chart_panel panel{title,
                    {"layer", chart_scale::linear, 0.5, static_cast<double>(report.layers) + 0.5},
                    {"mean attention of a query", chart_scale::linear, 0, 1},
                    {}};
  double low = 0, high = 0;
  std::vector<chart_series> lines;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const char* const colour = colours[i % std::size(colours)];
    chart_series points{names[i], colour, chart_mark::circle, {}}, line{"", colour, chart_mark::line, {}};
    const double shift = 0.5 * (static_cast<double>(i) + 0.5) / static_cast<double>(names.size()) - 0.25;
    for (std::int64_t layer = 0; layer < report.layers; ++layer) {
      double sum = 0;
      for (std::int64_t head = layer * report.heads; head < (layer + 1) * report.heads; ++head) {
        const double y = value(head, i);
        if (std::isnan(y)) continue;
        points.points.push_back({static_cast<double>(layer + 1) + shift, y, y, y});
        low = std::min(low, y);
        high = std::max(high, y);
        sum += y / static_cast<double>(report.heads);
      }
      line.points.push_back({static_cast<double>(layer + 1), sum, sum, sum});
    }
    if (points.points.empty()) continue;
    panel.series.push_back(std::move(points));
    lines.push_back(std::move(line));
  }
  panel.series.insert(panel.series.end(), lines.begin(), lines.end());
  panel.y.low = 1.05 * low;
  panel.y.high = high > 0 ? 1.05 * high : 1;
  return panel;
}

/// To each class, from all tokens (fig. 1b, 1c).
chart_panel to_classes(const attention_report& report, const char* title, double raw, double effective) {
  const class_averages& all = report.averages;
  return layer_panel(report, title, report.classes, [&](std::int64_t head, std::size_t i) {
    const auto to = static_cast<std::int64_t>(i);
    if (all.texts[i] == 0 || to == report.rest) return std::nan("");
    return raw * all.at(all.raw, head, all.classes, to) + effective * all.at(all.effective, head, all.classes, to);
  });
}

/// To one class, from each class (fig. 5).
chart_panel from_classes(const attention_report& report, const std::string& title, std::int64_t to,
                         const std::vector<double>& numbers) {
  return layer_panel(report, title, report.classes, [&](std::int64_t head, std::size_t from) {
    return report.averages.at(numbers, head, static_cast<std::int64_t>(from), to);
  });
}

/// Panels that are compared have the same axis.
void share_axis(chart_panel& a, chart_panel& b) {
  a.y.low = b.y.low = std::min(a.y.low, b.y.low);
  a.y.high = b.y.high = std::max(a.y.high, b.y.high);
}

}  // namespace

std::string attention_chart(const attention_report& report) {
  std::vector<chart_panel> panels{correlation_panel(report), to_classes(report, "Raw attention to classes", 1, 0),
                                  to_classes(report, "Effective attention to classes", 0, 1)};
  share_axis(panels[1], panels[2]);
  if (report.separator && report.averages.texts[static_cast<std::size_t>(*report.separator)] > 0) {
    const std::string& name = report.name(*report.separator);
    panels.push_back(to_classes(report, "Null attention to classes", 1, -1));
    panels.push_back(
        from_classes(report, "Raw attention to " + name + ", from", *report.separator, report.averages.raw));
    panels.push_back(from_classes(report, "Effective attention to " + name + ", from", *report.separator,
                                  report.averages.effective));
    share_axis(panels[4], panels[5]);
  }
  return draw_chart(fmt::format("Attention of {}, {} texts", report.model, report.texts.size()), panels, 3);
}

}  // namespace nullscope::cli

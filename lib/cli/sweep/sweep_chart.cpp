#include "lib/cli/sweep/sweep_chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lib/cli/charts/chart.hpp"

namespace nullscope::cli {
namespace {

using spread_member = sweep_spread sweep_summary::*;

chart_series points_of(const std::vector<sweep_summary>& summaries, sweep_kind kind, spread_member member,
                       std::string name) {
  const bool is_added = kind == sweep_kind::added;
  chart_series series{std::move(name),
                      is_added ? chart_colour::orange : chart_colour::blue,
                      is_added ? chart_mark::square : chart_mark::circle,
                      {}};
  for (const sweep_summary& summary : summaries) {
    const sweep_spread& spread = summary.*member;
    if (summary.kind != kind || std::isnan(spread.mean)) continue;
    const double error = member == &sweep_summary::pearson && summary.pearson_error > 0 ? summary.pearson_error : 0;
    series.points.push_back({static_cast<double>(summary.length), spread.mean,
                             std::min(spread.least, spread.mean - 2 * error),
                             std::max(spread.most, spread.mean + 2 * error)});
  }
  return series;
}

/// A line over all lengths, with a point at the knee and enough between to be smooth on a logarithmic axis.
template <class Function>
chart_series line_of(const chart_axis& x, double knee, std::string name, const char* colour, Function function) {
  chart_series series{std::move(name), colour, chart_mark::dashed, {}};
  std::vector<double> places{std::clamp(knee, x.low, x.high)};
  for (int i = 0; i <= 96; ++i) places.push_back(x.low * std::pow(x.high / x.low, i / 96.0));
  std::ranges::sort(places);
  for (const double place : places) series.points.push_back({place, function(place), 0, 0});
  return series;
}

chart_axis length_axis(const sweep_settings& settings) {
  const auto first = static_cast<double>(settings.lengths.front()), last = static_cast<double>(settings.lengths.back());
  return {"sequence length S", chart_scale::log2, first / 1.15, last * 1.15};
}

chart_panel rank_panel(const sweep_settings& settings, const std::vector<sweep_summary>& summaries) {
  chart_panel panel{"Rank of T", length_axis(settings), {"rank(T)", chart_scale::log2, 1, 1}, {}};
  for (const sweep_kind kind : settings.kinds()) {
    const auto values = static_cast<double>(settings.value_size(kind));
    const char* colour = kind == sweep_kind::added ? chart_colour::orange : chart_colour::blue;
    panel.series.push_back(line_of(panel.x, values, fmt::format("min(S, {})", values), colour,
                                   [=](double s) { return std::min(s, values); }));
    panel.series.push_back(
        points_of(summaries, kind, &sweep_summary::rank, fmt::format("{}, d_v = {}", to_string(kind), values)));
    panel.y.high = std::max(panel.y.high, 1.5 * std::min(values, panel.x.high));
  }
  panel.y.low = std::max(0.5, panel.x.low / 1.1);
  for (const sweep_summary& summary : summaries) {
    if (summary.kind != sweep_kind::logits)
      panel.y.low = std::min(panel.y.low, std::max(0.5, summary.rank.least / 1.1));
  }
  return panel;
}

chart_panel null_panel(const sweep_settings& settings, const std::vector<sweep_summary>& summaries) {
  chart_panel panel{"Null space of T", length_axis(settings), {"dim LN(T)", chart_scale::log2_with_zero, 0, 1}, {}};
  for (const sweep_kind kind : settings.kinds()) {
    const auto values = static_cast<double>(settings.value_size(kind));
    const char* colour = kind == sweep_kind::added ? chart_colour::orange : chart_colour::blue;
    panel.series.push_back(line_of(panel.x, values, fmt::format("S - min(S, {})", values), colour,
                                   [=](double s) { return std::max(0.0, s - values); }));
    panel.series.push_back(
        points_of(summaries, kind, &sweep_summary::null_dim, fmt::format("{}, d_v = {}", to_string(kind), values)));
  }
  panel.y.high = 1.4 * panel.x.high;
  panel.y.low = 0;
  return panel;
}

chart_panel pearson_panel(const sweep_settings& settings, const std::vector<sweep_summary>& summaries) {
  const std::string label = settings.is_sampled()
                                ? fmt::format("Pearson correlation ({} queries, 2 std. errors)", settings.query_sample)
                                : "Pearson correlation";
  chart_panel panel{"Raw and effective attention", length_axis(settings), {label}, {}};
  double least = 1;
  for (const sweep_kind kind : settings.kinds()) {
    panel.series.push_back(
        points_of(summaries, kind, &sweep_summary::pearson, fmt::format("{} heads", to_string(kind))));
    if (panel.series.back().points.empty()) panel.series.pop_back();
  }
  for (const chart_series& series : panel.series) {
    for (const chart_point& point : series.points) least = std::min(least, point.low);
  }
  least = std::max(least, -1.0);
  panel.y.low = std::max(-1.0, std::floor(least * 10 - 0.5) / 10);
  panel.y.high = 1 + 0.04 * (1 - panel.y.low);
  return panel;
}

chart_panel logit_panel(const sweep_settings& settings, const std::vector<sweep_summary>& summaries) {
  chart_panel panel{"Rank of the logits", {"sequence length S"}, {"rank of log(A)"}, {}};
  const auto keys = static_cast<double>(settings.key_size);
  auto raw = points_of(summaries, sweep_kind::logits, &sweep_summary::raw_logit_rank, "A");
  auto alternatives =
      points_of(summaries, sweep_kind::logits, &sweep_summary::alternative_logit_rank, "alternatives to A");
  alternatives.colour = chart_colour::green;
  alternatives.mark = chart_mark::diamond;
  panel.x.low = raw.points.front().x - 2;
  panel.x.high = raw.points.back().x + 2;
  panel.y.low = 0;
  panel.y.high = 1.1 * std::max(panel.x.high, keys);
  panel.series = {line_of(panel.x, panel.x.low, fmt::format("min(S - 1, d_k), d_k = {}", keys), chart_colour::blue,
                          [=](double s) { return std::min(s - 1, keys); }),
                  line_of(panel.x, panel.x.low, "S - 1", chart_colour::green, [](double s) { return s - 1; }), raw,
                  alternatives};
  return panel;
}

double seconds_per_head(const sweep_time& time) { return time.seconds / static_cast<double>(time.heads); }

}  // namespace

std::string time_chart(const std::string& title, const sweep_settings& settings, const std::string& device,
                       const std::vector<sweep_time>& times) {
  // Milliseconds, because the axis has powers of two from 1 on.
  chart_panel panel{
      "Time of a head on " + device, length_axis(settings), {"milliseconds", chart_scale::log2, 0, 2}, {}};
  for (const sweep_kind kind : settings.kinds()) {
    const bool is_added = kind == sweep_kind::added;
    chart_series series{fmt::format("{}, d_v = {}{}", to_string(kind), settings.value_size(kind),
                                    settings.is_sampled() ? fmt::format(", {} queries", settings.query_sample) : ""),
                        is_added ? chart_colour::orange : chart_colour::blue,
                        is_added ? chart_mark::square : chart_mark::circle,
                        {}};
    for (const sweep_time& time : times) {
      if (time.kind != kind) continue;
      const double y = std::max(1.0, 1000 * seconds_per_head(time));
      series.points.push_back({static_cast<double>(time.length), y, y, y, fmt::format("{:.2g} s", y / 1000)});
      panel.y.low = panel.y.low == 0 ? y / 2 : std::min(panel.y.low, y / 2);
      panel.y.high = std::max(panel.y.high, 2 * y);
    }
    panel.series.push_back(std::move(series));
  }
  return draw_chart(title, {panel}, 1);
}

std::string sweep_chart(const std::string& title, const sweep_settings& settings,
                        const std::vector<sweep_summary>& summaries) {
  std::vector<chart_panel> panels{rank_panel(settings, summaries), null_panel(settings, summaries)};
  chart_panel pearson = pearson_panel(settings, summaries);
  if (!pearson.series.empty()) panels.push_back(std::move(pearson));
  if (settings.logit_rank) panels.push_back(logit_panel(settings, summaries));
  const std::size_t columns = panels.size() == 4 ? 2 : panels.size();
  return draw_chart(title, panels, columns);
}

}  // namespace nullscope::cli

#include "lib/cli/hta/hta_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nullscope/core/errors.hpp>

#include "lib/cli/charts/chart.hpp"
#include "lib/cli/charts/heat_map.hpp"
#include "lib/cli/charts/quartile_chart.hpp"
#include "lib/cli/common/field_text.hpp"
#include "lib/src/io/atomic_file.hpp"

namespace nullscope::cli {
namespace {

constexpr const char* colours[] = {chart_colour::blue, chart_colour::orange, chart_colour::green, "#CC79A7",
                                   "#E69F00",          chart_colour::grey};
constexpr std::int64_t farthest_neighbour = 40, last_position = 100;  // in charts

/// The first, the middle and the last layer: places in layers().
std::vector<std::size_t> three_layers(const attribution_statistics& of) {
  const std::size_t last = of.layers().size() - 1;
  std::vector<std::size_t> places{0};
  for (const std::size_t place : {last / 2, last}) {
    if (place != places.back()) places.push_back(place);
  }
  return places;
}

std::string own_csv(const attribution_statistics& of) {
  std::string csv = "layer,tokens,mean,first_quartile,median,third_quartile,not_largest\n";
  for (std::size_t l = 0; l < of.layers().size(); ++l) {
    const sample_summary own = of.own(l);
    fmt::format_to(std::back_inserter(csv), "{},{},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g}\n", of.layers()[l], own.count,
                   own.mean, own.low, own.median, own.high, of.not_largest(l));
  }
  return csv;
}

std::string distance_csv(const attribution_statistics& of) {
  std::string csv = "layer,distance,mean_contribution,share_of_layers\n";
  for (std::size_t l = 0; l < of.layers().size(); ++l) {
    for (int g = 0; g < attribution_statistics::distance_groups; ++g) {
      fmt::format_to(std::back_inserter(csv), "{},{},{:.6g},{:.6g}\n", of.layers()[l],
                     attribution_statistics::name_of_distance(g), of.by_distance(l, g), of.share_of_layers(l, g));
    }
  }
  return csv;
}

/// Own contribution by class or by tag.
using own_by_group = std::map<std::string, sample_summary> (attribution_statistics::*)(std::size_t) const;

std::string groups_csv(const attribution_statistics& of, const char* name_of_group, own_by_group by_group) {
  std::string csv = fmt::format("layer,{},tokens,mean,first_quartile,median,third_quartile\n", name_of_group);
  for (std::size_t l = 0; l < of.layers().size(); ++l) {
    for (const auto& [name, own] : (of.*by_group)(l)) {
      fmt::format_to(std::back_inserter(csv), "{},{},{},{:.6g},{:.6g},{:.6g},{:.6g}\n", of.layers()[l], csv_field(name),
                     own.count, own.mean, own.low, own.median, own.high);
    }
  }
  return csv;
}

using profile = std::map<std::int64_t, double> (attribution_statistics::*)(std::size_t) const;

std::string profile_csv(const attribution_statistics& of, const char* head,
                        const std::vector<std::pair<std::string, profile>>& profiles) {
  std::string csv = head;
  for (const auto& [name, of_layer] : profiles) {
    for (std::size_t l = 0; l < of.layers().size(); ++l) {
      for (const auto& [place, share] : (of.*of_layer)(l)) {
        fmt::format_to(std::back_inserter(csv), "{}{},{},{:.6g}\n", name, of.layers()[l], place, share);
      }
    }
  }
  return csv;
}

double with_room(double largest) { return largest > 0 ? 1.05 * largest : 1; }

chart_axis layer_axis(const attribution_statistics& of) {
  return {"layer", chart_scale::linear, static_cast<double>(of.layers().front()) - 0.5,
          static_cast<double>(of.layers().back()) + 0.5};
}

chart_panel own_panel(const attribution_statistics& of) {
  chart_panel panel{"Own contribution", layer_axis(of), {"contribution of the token itself (%)"}, {}};
  chart_series series{"median and quartiles", chart_colour::blue, chart_mark::circle, {}};
  double largest = 0;
  for (std::size_t l = 0; l < of.layers().size(); ++l) {
    const sample_summary own = of.own(l);
    series.points.push_back({static_cast<double>(of.layers()[l]), 100 * own.median, 100 * own.low, 100 * own.high});
    largest = std::max(largest, 100 * own.high);
  }
  panel.y.high = with_room(largest);
  panel.series = {series};
  return panel;
}

chart_panel not_largest_panel(const attribution_statistics& of) {
  chart_panel panel{"Tokens that are not their own largest contributor", layer_axis(of), {"share of tokens (%)"}, {}};
  chart_series series{"P", chart_colour::orange, chart_mark::square, {}};
  double largest = 0;
  for (std::size_t l = 0; l < of.layers().size(); ++l) {
    const double share = 100 * of.not_largest(l);
    series.points.push_back({static_cast<double>(of.layers()[l]), share, share, share});
    largest = std::max(largest, share);
  }
  panel.y.high = with_room(largest);
  panel.series = {series};
  return panel;
}

chart_panel distance_panel(const attribution_statistics& of) {
  chart_panel panel{"Neighbours by distance", layer_axis(of), {"share of the sum over all layers (%)"}, {}};
  double largest = 0;
  for (int g = 0; g < attribution_statistics::distance_groups; ++g) {
    chart_series series{attribution_statistics::name_of_distance(g), colours[g], chart_mark::line, {}};
    for (std::size_t l = 0; l < of.layers().size(); ++l) {
      const double share = 100 * of.share_of_layers(l, g);
      series.points.push_back({static_cast<double>(of.layers()[l]), share, share, share});
      largest = std::max(largest, share);
    }
    panel.series.push_back(series);
  }
  panel.y.high = with_room(largest);
  return panel;
}

/// A profile of the first, the middle and the last layer, for places from -farthest to farthest.
chart_panel profile_panel(const attribution_statistics& of, const std::string& title, const std::string& label,
                          profile of_layer, std::int64_t farthest = farthest_neighbour) {
  const std::map<std::int64_t, double> places = (of.*of_layer)(0);
  const std::int64_t low = places.empty() ? 0 : std::max(-farthest, places.begin()->first);
  const std::int64_t high = places.empty() ? 1 : std::min(farthest, places.rbegin()->first);
  chart_panel panel{title,
                    {label, chart_scale::linear, static_cast<double>(low), static_cast<double>(high)},
                    {"share of all others (%)"},
                    {}};
  double largest = 0;
  std::size_t colour = 0;
  for (const std::size_t l : three_layers(of)) {
    chart_series series{fmt::format("layer {}", of.layers()[l]), colours[colour++], chart_mark::line, {}};
    for (const auto& [place, share] : (of.*of_layer)(l)) {
      if (place < low || place > high) continue;
      series.points.push_back({static_cast<double>(place), 100 * share, 100 * share, 100 * share});
      largest = std::max(largest, 100 * share);
    }
    panel.series.push_back(series);
  }
  panel.y.high = with_room(largest);
  return panel;
}

std::string report_chart(const std::string& title, const attribution_statistics& of) {
  std::vector<chart_panel> panels{
      own_panel(of), not_largest_panel(of), distance_panel(of),
      profile_panel(of, "Neighbours by relative position", "position of the neighbour",
                    &attribution_statistics::by_offset),
      profile_panel(of, "To the first token", "position", &attribution_statistics::to_first_token, last_position)};
  if (!of.to_first_token_around_separator(0).empty()) {
    panels.push_back(profile_panel(of, "To the first token, around the separator", "position after the separator",
                                   &attribution_statistics::to_first_token_around_separator));
  }
  return draw_chart(title, panels, 3);
}

/// One panel per layer. Groups in the order of their medians in the last layer, the largest first.
std::string groups_chart(const std::string& title, const attribution_statistics& of, own_by_group by_group) {
  std::vector<std::pair<double, std::string>> order;
  for (const auto& [name, own] : (of.*by_group)(of.layers().size() - 1)) order.emplace_back(-own.median, name);
  std::ranges::sort(order);
  std::vector<quartile_panel> panels;
  for (std::size_t l = 0; l < of.layers().size(); ++l) {
    const std::map<std::string, sample_summary> all = (of.*by_group)(l);
    quartile_panel panel{fmt::format("layer {}", of.layers()[l]), {}};
    for (const auto& [rank, name] : order) {
      const sample_summary& own = all.at(name);
      panel.rows.push_back({fmt::format("{} ({})", name, own.count), 100 * own.low, 100 * own.median, 100 * own.high});
    }
    panels.push_back(panel);
  }
  return draw_quartiles(title, "own contribution (%): median and quartiles", panels, 3);
}

std::string heat_maps(const std::string& title, const heat_map_text& example) {
  const auto s = static_cast<std::size_t>(example.of.tokens);
  std::vector<heat_map> maps;
  for (std::size_t l = 0; l < example.of.layers.size(); ++l) {
    maps.push_back(
        {fmt::format("layer {}", example.of.layers[l]), std::span(example.of.contribution).subspan(l * s * s, s * s)});
  }
  return draw_heat_maps(title + ". Rows: hidden tokens, columns: input tokens", example.tokens, maps, 3);
}

}  // namespace

void write_hta_report(const std::filesystem::path& folder, const std::string& title,
                      const attribution_statistics& statistics, const heat_map_text& example) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) throw file_error(fmt::format("cannot create {}: {}", folder.string(), failure.message()));
  write_atomically(folder / "own.csv", own_csv(statistics));
  write_atomically(folder / "distance.csv", distance_csv(statistics));
  write_atomically(folder / "classes.csv", groups_csv(statistics, "class", &attribution_statistics::own_by_class));
  write_atomically(folder / "offset.csv",
                   profile_csv(statistics, "layer,offset,share\n", {{"", &attribution_statistics::by_offset}}));
  write_atomically(folder / "first_token.csv",
                   profile_csv(statistics, "from,layer,position,share\n",
                               {{"start,", &attribution_statistics::to_first_token},
                                {"separator,", &attribution_statistics::to_first_token_around_separator}}));
  write_atomically(folder / "report.svg", report_chart(title, statistics));
  write_atomically(folder / "classes.svg", groups_chart(title, statistics, &attribution_statistics::own_by_class));
  if (!statistics.own_by_tag(0).empty()) {
    write_atomically(folder / "tags.csv", groups_csv(statistics, "tag", &attribution_statistics::own_by_tag));
    write_atomically(folder / "tags.svg", groups_chart(title, statistics, &attribution_statistics::own_by_tag));
  } else {  // left by the report that is overwritten
    std::filesystem::remove(folder / "tags.csv");
    std::filesystem::remove(folder / "tags.svg");
  }
  write_atomically(folder / "heat_map.svg", heat_maps(title, example));
}

}  // namespace nullscope::cli

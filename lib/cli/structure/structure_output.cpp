#include "lib/cli/structure/structure_output.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nullscope/io/safetensors.hpp>
#include <numeric>

#include "lib/cli/charts/chart.hpp"
#include "lib/cli/charts/heat_map.hpp"
#include "lib/src/io/atomic_file.hpp"

namespace nullscope::cli {
namespace {

template <class Number>
double mean_of(const std::vector<Number>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 0.0) /
         static_cast<double>(std::max<std::size_t>(1, numbers.size()));
}

/// One row per head, quantity and index: what the index counts is in the help of the command.
std::string table(const structure_report& report) {
  std::string text = "layer,head,quantity,index,value\n";
  const auto add = [&](const char* quantity, std::int64_t index, const auto& of_heads) {
    for (std::size_t i = 0; i < of_heads.size(); ++i) {
      const std::size_t heads = static_cast<std::size_t>(report.heads);
      fmt::format_to(std::back_inserter(text), "{},{},{},{},{}\n", i / heads + 1, i % heads + 1, quantity, index,
                     of_heads[i]);
    }
  };
  add("emptied_rows", report.inputs, report.emptied);
  for (const dimension_row& row : report.dimensions) {
    add("dim_r", row.samples, row.dimension);
    add("dim_r_at_tolerance", row.samples, row.coarse);
  }
  for (std::size_t i = 0; i < report.texts.size(); ++i) {
    add("plain_distance", report.texts[i], report.distances[i].plain);
    add("structure_distance", report.texts[i], report.distances[i].structure);
    add("switched_off", report.texts[i], report.switched_off[i]);
  }
  return text;
}

chart_series dimensions_of(const structure_report& report, const char* name, const char* colour, chart_mark mark,
                           std::vector<std::int64_t> dimension_row::*member) {
  chart_series series{name, colour, mark, {}};
  for (const dimension_row& row : report.dimensions) {
    const auto [least, most] = std::ranges::minmax(row.*member);
    series.points.push_back({static_cast<double>(row.samples), mean_of(row.*member), static_cast<double>(least),
                             static_cast<double>(most)});
  }
  return series;
}

chart_panel dimension_panel(const structure_report& report) {
  const double last = static_cast<double>(report.dimensions.back().samples);
  chart_panel panel{"Task subspace R, all heads",
                    {"texts", chart_scale::log2, 1 / 1.15, std::max(2.0, last) * 1.15},
                    {"dim R", chart_scale::linear, 0, 1.05 * static_cast<double>(report.tokens)},
                    {}};
  const std::string coarse = fmt::format("above {:g} of the largest", report.tolerance);
  panel.series = {
      dimensions_of(report, "above rounding", chart_colour::blue, chart_mark::circle, &dimension_row::dimension),
      dimensions_of(report, coarse.c_str(), chart_colour::orange, chart_mark::square, &dimension_row::coarse)};
  return panel;
}

/// Singular values of all T side by side, relative to the largest: the mean over the heads of each layer.
chart_panel spectrum_panel(const structure_report& report) {
  chart_panel panel{"Spectrum of all T side by side",
                    {"number", chart_scale::linear, 1, std::max<double>(2, static_cast<double>(report.tokens))},
                    {"singular value / largest", chart_scale::linear, 0, 1.02},
                    {}};
  const std::size_t s = static_cast<std::size_t>(report.tokens), heads = static_cast<std::size_t>(report.heads);
  const auto line = [&](std::size_t layer, const char* colour, chart_mark mark) {
    chart_series series{fmt::format("layer {}", layer + 1), colour, mark, {}};
    for (std::size_t i = 0; i < s; ++i) {
      double sum = 0;
      for (std::size_t h = 0; h < heads; ++h) {
        const float* values = report.spectrum.data() + (layer * heads + h) * s;
        sum += values[0] > 0 ? static_cast<double>(values[i] / values[0]) : 0;
      }
      series.points.push_back({static_cast<double>(i + 1), sum / static_cast<double>(heads), 0, 0});
    }
    panel.series.push_back(std::move(series));
  };
  line(0, chart_colour::blue, chart_mark::line);
  if (report.layers > 1) line(static_cast<std::size_t>(report.layers - 1), chart_colour::orange, chart_mark::dashed);
  return panel;
}

/// Each head: the mean distance of the texts from the mean attention, in both norms.
chart_panel distance_panel(const structure_report& report) {
  chart_panel panel{"Distance of texts from the mean attention",
                    {"plain norm (x 1000)", chart_scale::linear, 0, 0},
                    {"structure-aware norm (x 1000)", chart_scale::linear, 0, 0},
                    {{"heads", chart_colour::blue, chart_mark::circle, {}}}};
  for (std::size_t i = 0; i < report.emptied.size(); ++i) {
    double plain = 0, structure = 0;
    for (const structure_distances<float>& one : report.distances) {
      plain += 1000 * static_cast<double>(one.plain[i]) / static_cast<double>(report.distances.size());
      structure += 1000 * static_cast<double>(one.structure[i]) / static_cast<double>(report.distances.size());
    }
    panel.series[0].points.push_back({plain, structure, structure, structure});
    panel.x.high = std::max(panel.x.high, 1.05 * plain);
    panel.y.high = std::max(panel.y.high, 1.05 * structure);
  }
  if (panel.x.high == 0) panel.x.high = 1;
  if (panel.y.high == 0) panel.y.high = 1;
  return panel;
}

chart_panel cluster_panel(const structure_report& report) {
  chart_series within{"within clusters", chart_colour::blue, chart_mark::circle, {}},
      between{"between clusters", chart_colour::orange, chart_mark::square, {}};
  for (const cluster_row& row : report.clusters) {
    const double all = row.within + row.between, x = static_cast<double>(row.clusters);
    const double share = all > 0 ? 100 * row.within / all : 0;
    within.points.push_back({x, share, share, share});
    between.points.push_back({x, 100 - share, 100 - share, 100 - share});
  }
  return {"Sums of squares by k-means",
          {"clusters", chart_scale::log2, 1 / 1.15,
           1.15 * std::max(2.0, static_cast<double>(report.clusters.back().clusters))},
          {"share of all (%)", chart_scale::linear, 0, 102},
          {within, between}};
}

std::string chart(const structure_report& report) {
  std::vector<chart_panel> panels{dimension_panel(report), spectrum_panel(report), distance_panel(report)};
  if (!report.clusters.empty()) panels.push_back(cluster_panel(report));
  return draw_chart(fmt::format("Structure of attention: {}, {} texts of {} tokens", report.model,
                                report.dimensions.back().samples, report.tokens),
                    panels, panels.size() == 4 ? 2 : 3);
}

std::string w_maps(const structure_report& report) {
  const std::vector<double> w(report.w.begin(), report.w.end());
  const std::size_t size = static_cast<std::size_t>(report.tokens * report.tokens);
  std::vector<heat_map> maps;
  for (std::size_t i = 0; i < report.emptied.size(); ++i) {
    const std::size_t heads = static_cast<std::size_t>(report.heads);
    maps.push_back(
        {fmt::format("layer {}, head {}", i / heads + 1, i % heads + 1), std::span(w).subspan(i * size, size)});
  }
  std::vector<std::string> tokens;
  for (std::int64_t i = 1; i <= report.tokens; ++i) tokens.push_back(std::to_string(i));
  return draw_heat_maps(fmt::format("W: mean attention of {} texts, cut at {:g}, rows normalised; rows are queries",
                                    report.inputs, report.cut),
                        tokens, maps, static_cast<std::size_t>(report.heads));
}

}  // namespace

output_place place_of_structure(const std::filesystem::path& folder) {
  output_place place{.result = folder / "structure.safetensors", .settings = settings_in_safetensors};
  for (const char* name : {"structure.csv", "structure.svg", "w.svg", "clusters.csv"}) {
    place.others.push_back(folder / name);
  }
  return place;
}

void write_structure(const std::filesystem::path& folder, const structure_report& report) {
  begin_writing(place_of_structure(folder));
  write_atomically(folder / "structure.csv", table(report));
  write_atomically(folder / "structure.svg", chart(report));
  write_atomically(folder / "w.svg", w_maps(report));
  if (report.clusters.empty()) {
    std::filesystem::remove(folder / "clusters.csv");  // left by the run that is overwritten
  } else {
    std::string clusters = "clusters,within,between\n";
    for (const cluster_row& row : report.clusters) {
      clusters += fmt::format("{},{},{}\n", row.clusters, row.within, row.between);
    }
    write_atomically(folder / "clusters.csv", clusters);
  }
  // Last, because it marks the run as finished.
  const std::int64_t l = report.layers, h = report.heads, s = report.tokens;
  write_safetensors(folder / "structure.safetensors",
                    {make_entry("w", {l, h, s, s}, report.w), make_entry("mean", {l, h, s, s}, report.mean),
                     make_entry("spectrum", {l, h, s}, report.spectrum),
                     make_entry("dim_r", {l, h}, report.dimensions.back().dimension)},
                    metadata_of(report.settings));
}

void print_structure(const structure_report& report) {
  const dimension_row& last = report.dimensions.back();
  const std::int64_t emptied = std::accumulate(report.emptied.begin(), report.emptied.end(), std::int64_t{0});
  const std::int64_t rows = std::ssize(report.emptied) * report.tokens;
  fmt::print("W of {} texts, cut at {:g}: {} of {} rows are empty\n", report.inputs, report.cut, emptied, rows);
  if (emptied == rows) fmt::print("No mean attention reaches {:g}: try a smaller --cut\n", report.cut);
  fmt::print("dim R of {} texts, mean of {} heads: {:.1f} of {}; {:.1f} above {:g} of the largest singular value\n",
             last.samples, report.emptied.size(), mean_of(last.dimension), report.tokens, mean_of(last.coarse),
             report.tolerance);
  double plain = 0, structure = 0, off = 0;
  for (std::size_t i = 0; i < report.texts.size(); ++i) {
    const double count = static_cast<double>(report.texts.size());
    plain += mean_of(report.distances[i].plain) / count;
    structure += mean_of(report.distances[i].structure) / count;
    off += mean_of(report.switched_off[i]) / count;
  }
  fmt::print("{} texts, mean distance from the mean attention: plain {:.3g}, structure-aware {:.3g}\n",
             report.texts.size(), plain, structure);
  fmt::print("Dimensions of R (above {:g}) that a text switches off, mean: {:.1f}\n", report.tolerance, off);
}

}  // namespace nullscope::cli

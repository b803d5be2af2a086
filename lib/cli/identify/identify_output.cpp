#include "lib/cli/identify/identify_output.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>

#include "lib/cli/charts/chart.hpp"

namespace nullscope::cli {
namespace {

constexpr const char* colours[] = {chart_colour::blue, chart_colour::orange, chart_colour::green, "#CC79A7", "#E69F00",
                                   "#56B4E9",          chart_colour::grey};

std::string title_of(const std::string& distance) { return distance == "l2" ? "L2 distance" : "cosine distance"; }

/// The values of a member in the order in which they come.
template <class Value>
std::vector<Value> values_of(const std::vector<identification_summary>& all, Value identification_row::*member) {
  std::vector<Value> values;
  for (const identification_summary& one : all) {
    if (std::ranges::find(values, one.of.*member) == values.end()) values.push_back(one.of.*member);
  }
  return values;
}

template <class Accept>
std::vector<identification_summary> chosen(const std::vector<identification_summary>& all, Accept accept) {
  std::vector<identification_summary> some;
  std::ranges::copy_if(all, std::back_inserter(some),
                       [&](const identification_summary& one) { return accept(one.of); });
  return some;
}

chart_series series_of(const std::string& name, std::size_t number, const std::vector<identification_summary>& all) {
  constexpr chart_mark marks[] = {chart_mark::circle, chart_mark::square, chart_mark::diamond};
  chart_series series{name, colours[number % std::size(colours)], marks[number % std::size(marks)], {}};
  for (const identification_summary& one : all) {
    series.points.push_back({static_cast<double>(one.of.tested_on), one.mean, one.mean - one.deviation,
                             std::min(1.0, one.mean + one.deviation)});
  }
  return series;
}

chart_panel panel_of(const std::string& title, const std::vector<identification_summary>& all,
                     const char* x = "layer") {
  double last = 1;
  for (const identification_summary& one : all) last = std::max(last, static_cast<double>(one.of.tested_on));
  return {title, {x, chart_scale::linear, 0.5, last + 0.5}, {"tokens identified", chart_scale::linear, 0, 1.02}, {}};
}

/// One panel per distance, one series per map.
std::vector<chart_panel> panels_by_distance(const std::vector<identification_summary>& all) {
  std::vector<chart_panel> panels;
  for (const std::string& distance : values_of(all, &identification_row::distance)) {
    chart_panel& panel = panels.emplace_back(panel_of(title_of(distance), all));
    std::size_t number = 0;
    for (const std::string& map : values_of(all, &identification_row::map)) {
      panel.series.push_back(series_of(map, number++, chosen(all, [&](const identification_row& row) {
                                         return row.map == map && row.distance == distance;
                                       })));
    }
  }
  return panels;
}

/// At most six of the values, spread evenly, with the first and the last.
std::vector<std::int64_t> few_of(std::vector<std::int64_t> values) {
  constexpr std::size_t most = 6;
  std::ranges::sort(values);
  if (values.size() <= most) return values;
  std::vector<std::int64_t> few;
  for (std::size_t i = 0; i < most; ++i) few.push_back(values[i * (values.size() - 1) / (most - 1)]);
  return few;
}

/// One panel per map and distance, one series per value of `member`; `name` is a format for the value.
std::vector<chart_panel> panels_by_map(const std::vector<identification_summary>& all,
                                       std::int64_t identification_row::*member, const char* name, const char* x) {
  std::vector<chart_panel> panels;
  for (const std::string& map : values_of(all, &identification_row::map)) {
    for (const std::string& distance : values_of(all, &identification_row::distance)) {
      const auto part =
          chosen(all, [&](const identification_row& row) { return row.map == map && row.distance == distance; });
      if (part.empty()) continue;
      chart_panel& panel = panels.emplace_back(panel_of(fmt::format("{}, {}", map, title_of(distance)), all, x));
      std::size_t number = 0;
      for (const std::int64_t value : few_of(values_of(part, member))) {
        panel.series.push_back(
            series_of(fmt::format(fmt::runtime(name), value), number++,
                      chosen(part, [&](const identification_row& row) { return row.*member == value; })));
      }
    }
  }
  return panels;
}

/// Training against test by layer, and the test by the amount of data.
std::vector<chart_panel> panels_of_generalisation(const std::vector<identification_summary>& all) {
  std::vector<chart_panel> panels;
  for (const std::string& distance : values_of(all, &identification_row::distance)) {
    chart_panel layers = panel_of("training and test, " + title_of(distance), all);
    chart_panel amount{"amount of data, " + title_of(distance),
                       {"share of the training sentences", chart_scale::linear, 0.4, 1.05},
                       {"tokens identified", chart_scale::linear, 0, 1.02},
                       {}};
    std::size_t number = 0;
    for (const std::string& map : values_of(all, &identification_row::map)) {
      const auto of = [&](const std::string& experiment) {
        return chosen(all, [&](const identification_row& row) {
          return row.map == map && row.distance == distance && row.experiment == experiment;
        });
      };
      layers.series.push_back(series_of(map + ", training", 2 * number, of("generalisation-training")));
      layers.series.push_back(series_of(map + ", test", 2 * number + 1, of("generalisation-test")));
      chart_series by_share{map, colours[number % std::size(colours)], chart_mark::circle, {}};
      std::int64_t layer = 0;
      for (const int percent : {50, 80, 90, 100}) {
        const auto part = of(percent == 100 ? "generalisation-test" : fmt::format("generalisation-test-{}", percent));
        for (const identification_summary& one : part) {
          if (percent < 100) layer = one.of.tested_on;
          if (one.of.tested_on != layer) continue;
          by_share.points.push_back({percent / 100.0, one.mean, one.mean - one.deviation, one.mean + one.deviation});
        }
      }
      if (layer > 0) {  // otherwise nothing was trained
        amount.title = fmt::format("layer {} by amount of data, {}", layer, title_of(distance));
        amount.series.push_back(std::move(by_share));
      }
      ++number;
    }
    panels.push_back(std::move(layers));
    panels.push_back(std::move(amount));
  }
  return panels;
}

}  // namespace

std::string identify_csv(const std::vector<identification_row>& rows) {
  std::string csv = "experiment,map,distance,trained_on,tested_on,offset,fold,tokens,correct\n";
  for (const identification_row& row : rows) {
    fmt::format_to(std::back_inserter(csv), "{},{},{},{},{},{},{},{},{}\n", row.experiment, row.map, row.distance,
                   row.trained_on, row.tested_on, row.offset, row.fold, row.tokens, row.correct);
  }
  return csv;
}

nlohmann::ordered_json to_json(const std::vector<identification_summary>& summaries) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const identification_summary& one : summaries) {
    all.push_back({{"experiment", one.of.experiment},
                   {"map", one.of.map},
                   {"distance", one.of.distance},
                   {"trained_on", one.of.trained_on},
                   {"tested_on", one.of.tested_on},
                   {"offset", one.of.offset},
                   {"folds", one.folds},
                   {"tokens", one.tokens},
                   {"rate", one.mean},
                   {"deviation", one.deviation}});
  }
  return all;
}

void print_summaries(const std::string& experiment, const std::vector<identification_summary>& summaries) {
  std::set<std::tuple<std::string, std::int64_t, std::int64_t, std::int64_t>> lines;
  std::vector<std::pair<std::string, std::string>> columns;
  for (const identification_summary& one : summaries) {
    lines.insert({one.of.experiment, one.of.offset, one.of.trained_on, one.of.tested_on});
    const std::pair column(one.of.map, one.of.distance);
    if (std::ranges::find(columns, column) == columns.end()) columns.push_back(column);
  }
  const bool has_kinds = values_of(summaries, &identification_row::experiment).size() > 1,
             has_offsets = values_of(summaries, &identification_row::offset).size() > 1;
  fmt::print("{}: share of tokens identified, mean and standard deviation over folds\n{:>8} {:>8}", experiment,
             "trained", "tested");
  for (const auto& [map, distance] : columns) fmt::print(" {:>20}", map + ", " + distance);
  fmt::print("\n");
  for (const auto& [kind, offset, trained_on, tested_on] : lines) {
    fmt::print("{:>8} {:>8}", trained_on, tested_on);
    for (const auto& [map, distance] : columns) {
      const auto found = std::ranges::find_if(summaries, [&](const identification_summary& one) {
        return key_of(one.of) == identification_key(kind, map, distance, trained_on, tested_on, offset);
      });
      fmt::print(" {:>20}",
                 found == summaries.end() ? "" : fmt::format("{:.4f} +- {:.4f}", found->mean, found->deviation));
    }
    if (has_offsets) fmt::print("  offset {:+}", offset);
    fmt::print("{}\n", has_kinds ? "  " + kind : "");
  }
  fmt::print("\n");
}

std::string identify_chart(const std::string& title, const std::string& experiment,
                           const std::vector<identification_summary>& summaries) {
  std::vector<chart_panel> panels;
  if (experiment == "transfer") {
    const auto trained = chosen(summaries, [](const identification_row& row) { return row.map != "identity"; });
    panels = panels_by_map(trained, &identification_row::trained_on, "trained on {}", "layer tested on");
  } else if (experiment == "neighbours") {
    panels = panels_by_map(summaries, &identification_row::offset, "token i{:+}", "layer");
  } else if (experiment == "generalisation") {
    panels = panels_of_generalisation(summaries);
  } else {
    panels = panels_by_distance(summaries);
  }
  return draw_chart(title, panels, 2);
}

}  // namespace nullscope::cli

#include "lib/cli/explain/experiment_output.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lib/cli/charts/chart.hpp"

namespace nullscope::cli {
namespace {

constexpr const char* colours[] = {
    chart_colour::blue, chart_colour::orange, chart_colour::green, "#CC79A7", "#E69F00", "#56B4E9", "#F0E442",
    "#000000"};

/// Numbers against 1, 2, 3, ...
chart_series counted(const std::string& name, const char* colour, chart_mark mark, const std::vector<double>& numbers) {
  chart_series series{name, colour, mark, {}};
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    series.points.push_back({static_cast<double>(i + 1), numbers[i], numbers[i], numbers[i]});
  }
  return series;
}

double largest_of(const std::vector<double>& numbers, double so_far) {
  for (const double x : numbers) so_far = std::max(so_far, x);
  return so_far;
}

const char* name_of(recovery_fit fit) {
  return fit == recovery_fit::least_squares ? "least squares" : fit == recovery_fit::sgd ? "sgd" : "analytic";
}

const char* name_of(network_kind kind) {
  return kind == network_kind::encoder ? "encoder" : kind == network_kind::decoder ? "decoder" : "fully connected";
}

constexpr recovery_fit all_fits[] = {recovery_fit::least_squares, recovery_fit::sgd, recovery_fit::analytic};

}  // namespace

void print_linear(const std::vector<linear_data_row>& rows) {
  fmt::print("log-odds of \"perfect\" repeated\n{:<20} {:>9}", "network", "accuracy");
  const std::vector<std::size_t> shown{1, 5, 10, 20, 30};
  for (const std::size_t n : shown) fmt::print(" {:>8}", fmt::format("{} x", n));
  fmt::print("\n");
  const auto line = [&](const std::string& name, const std::string& accuracy, const std::vector<double>& numbers) {
    fmt::print("{:<20} {:>9}", name, accuracy);
    for (const std::size_t n : shown) fmt::print(" {:>8.3f}", numbers.at(n - 1));
    fmt::print("\n");
  };
  if (!rows.empty()) line("linear model (truth)", "", rows[0].errors.truth);
  for (const linear_data_row& row : rows) {
    line(row.network.name(), fmt::format("{:.3f}", row.errors.accuracy), row.errors.network);
  }
}

void print_surrogates(const std::vector<linear_data_row>& rows) {
  fmt::print("mean squared error (x 100) of the log-odds on other sequences\n");
  fmt::print("{:<20} {:>9} {:>10} {:>10} {:>10}\n", "network", "accuracy", "linear", "GAM", "SLALOM");
  for (const auto& [network, errors] : rows) {
    fmt::print("{:<20} {:>9.3f} {:>10.3f} {:>10.3f} {:>10.3f}\n", network.name(), errors.accuracy, 100 * errors.linear,
               100 * errors.gam, 100 * errors.slalom);
  }
}

std::string linear_data_csv(const std::vector<linear_data_row>& rows) {
  std::string table =
      "network,layers,accuracy,mse_linear,mse_gam,mse_slalom,repetitions,truth,log_odds,linear,gam,slalom\n";
  for (const auto& [network, errors] : rows) {
    for (std::size_t i = 0; i < errors.network.size(); ++i) {
      table += fmt::format("{},{},{:.6g},{:.9g},{:.9g},{:.9g},{},{:.9g},{:.9g},{:.9g},{:.9g},{:.9g}\n",
                           name_of(network.kind), network.layers, errors.accuracy, errors.linear, errors.gam,
                           errors.slalom, i + 1, errors.truth[i], errors.network[i], errors.by_linear[i],
                           errors.by_gam[i], errors.by_slalom[i]);
    }
  }
  return table;
}

std::string linear_chart(const std::vector<linear_data_row>& rows) {
  std::vector<chart_panel> panels;
  double highest = 1;
  for (const linear_data_row& row : rows) {
    highest = largest_of(row.errors.network, largest_of(row.errors.truth, highest));
  }
  for (const network_kind kind : {network_kind::fully_connected, network_kind::encoder, network_kind::decoder}) {
    chart_panel panel{name_of(kind),
                      {"repetitions of \"perfect\"", chart_scale::linear, 0, 30},
                      {"log-odds", chart_scale::linear, 0, highest},
                      {}};
    panel.title[0] = static_cast<char>(std::toupper(panel.title[0]));
    for (const auto& [network, errors] : rows) {
      if (network.kind != kind) continue;
      const std::string name = kind == network_kind::fully_connected ? fmt::format("width {}", network.width)
                                                                     : fmt::format("{} layers", network.layers);
      panel.series.push_back(
          counted(name, colours[panel.series.size() % std::size(colours)], chart_mark::circle, errors.network));
    }
    if (panel.series.empty()) continue;
    panel.series.push_back(counted("truth", chart_colour::grey, chart_mark::dashed, rows[0].errors.truth));
    panels.push_back(std::move(panel));
  }
  return draw_chart("Log-odds that networks learn from linear data", panels, panels.size());
}

std::string surrogates_chart(const std::vector<linear_data_row>& rows) {
  std::vector<chart_panel> panels;
  for (const auto& [network, errors] : rows) {
    chart_panel panel{network.name(),
                      {"repetitions of \"perfect\"", chart_scale::linear, 0, 30},
                      {"log-odds", chart_scale::linear, 0, 1},
                      {counted("network", "#000000", chart_mark::circle, errors.network),
                       counted("linear", chart_colour::orange, chart_mark::dashed, errors.by_linear),
                       counted("GAM", chart_colour::green, chart_mark::dashed, errors.by_gam),
                       counted("SLALOM", chart_colour::blue, chart_mark::line, errors.by_slalom)}};
    panel.y.high = 1.3 * largest_of(errors.by_slalom, largest_of(errors.network, 1));
    for (chart_series& series : panel.series) {  // a line ends where it leaves the panel
      while (!series.points.empty() && series.points.back().y > panel.y.high) series.points.pop_back();
    }
    panels.push_back(std::move(panel));
  }
  return draw_chart("Surrogates of transformers", panels, 2);
}

void print_recovery(const std::vector<recovery_row>& rows, std::int64_t words) {
  fmt::print("mean squared errors (x 100) against the planted SLALOM of {} words\n", words);
  fmt::print("{:<20} {:<14} {:>8} {:>10} {:>11} {:>10}\n", "network", "fit", "queries", "log-odds", "parameters",
             "fit in s");
  for (const recovery_row& row : rows) {
    if (row.words != words) continue;
    fmt::print("{:<20} {:<14} {:>8} {:>10.4f} {:>11.3f} {:>10.4f}\n", row.network.name(), name_of(row.fit),
               row.errors.queries, 100 * row.errors.logits.back(), 100 * row.errors.parameters, row.errors.seconds);
  }
}

std::string recovery_csv(const std::vector<recovery_row>& rows) {
  std::string table = "network,layers,fit,words,longest,queries,mse_log_odds,mse_parameters,seconds\n";
  for (const recovery_row& row : rows) {
    for (std::size_t i = 0; i < row.longest.size(); ++i) {
      table += fmt::format("{},{},{},{},{},{},{:.9g},{:.9g},{:.6g}\n", name_of(row.network.kind), row.network.layers,
                           name_of(row.fit), row.words, row.longest[i], row.errors.queries, row.errors.logits[i],
                           row.errors.parameters, row.errors.seconds);
    }
  }
  return table;
}

std::string recovery_chart(const std::vector<recovery_row>& rows, const slalom_model& planted) {
  const auto words = planted.tokens();
  std::vector<chart_panel> panels;
  const auto full = std::ranges::find(rows, words, &recovery_row::words);
  if (full == rows.end()) return draw_chart("Recovery of a planted SLALOM", panels, 1);
  for (const bool values : {true, false}) {  // planted against found, of the first network
    const std::vector<double>& truth = values ? planted.value : planted.importance;
    const std::vector<double>& found = values ? full->errors.found.value : full->errors.found.importance;
    chart_series series{full->network.name(), chart_colour::blue, chart_mark::circle, {}},
        line{"equal", chart_colour::grey, chart_mark::dashed, {}};
    double low = 0, high = 0;
    for (std::size_t j = 0; j < truth.size(); ++j) {
      series.points.push_back({truth[j], found[j], found[j], found[j]});
      low = std::min({low, truth[j], found[j]});
      high = std::max({high, truth[j], found[j]});
    }
    line.points = {{low, low, low, low}, {high, high, high, high}};
    panels.push_back({values ? "Values" : "Importances",
                      {"planted", chart_scale::linear, low, high},
                      {"found by least squares", chart_scale::linear, low, high},
                      {line, series}});
  }
  for (const bool by_words : {true, false}) {  // errors of the log-odds by vocabulary and by length
    chart_panel panel{by_words ? "Words of the vocabulary" : "Longest sequence",
                      {by_words ? "words" : "tokens", chart_scale::log2, by_words ? 4.0 : 2.0,
                       by_words ? static_cast<double>(words) : 32.0},
                      {"error of the log-odds (root of mean square)", chart_scale::linear, 0, 1e-3},
                      {}};
    for (const recovery_fit fit : all_fits) {
      const std::size_t i = static_cast<std::size_t>(fit);
      chart_series series{name_of(fit), colours[i], chart_mark::line, {}};
      for (const recovery_row& row : rows) {
        if (row.fit != fit || !(by_words || row.words == words) || row.network.name() != full->network.name()) continue;
        for (std::size_t k = by_words ? row.longest.size() - 1 : 0; k < row.longest.size(); ++k) {
          const double error = std::sqrt(row.errors.logits[k]);
          series.points.push_back({static_cast<double>(by_words ? row.words : row.longest[k]), error, error, error});
          panel.y.high = std::max(panel.y.high, 1.05 * error);
        }
      }
      panel.series.push_back(std::move(series));
    }
    panels.push_back(std::move(panel));
  }
  return draw_chart("Recovery of a planted SLALOM", panels, 2);
}

}  // namespace nullscope::cli

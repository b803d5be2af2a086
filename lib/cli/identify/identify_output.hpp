/// The results of nullscope identify: rows, their summary over folds, tables, charts.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace nullscope::cli {

/// One probe, tested on the tokens of one fold.
struct identify_row {
  std::string experiment, map, distance;
  std::int64_t trained_on = 0, tested_on = 0, offset = 0, fold = 0, tokens = 0, correct = 0;
  double learning_rate = 0;  ///< of probes that were trained
  std::int64_t epochs = 0;
};

nlohmann::json encode_rows(const std::vector<identify_row>& rows);
std::vector<identify_row> decode_rows(const nlohmann::json& rows);

/// All folds of one experiment, map, distance, pair of layers and offset.
struct identify_summary {
  identify_row of;  ///< the first fold
  std::int64_t folds = 0, tokens = 0;
  double mean = 0, deviation = 0;  ///< of the rate, over folds; 0 with one fold
};

/// In the order of the first rows.
std::vector<identify_summary> summaries_of(const std::vector<identify_row>& rows);

std::string identify_csv(const std::vector<identify_row>& rows);
nlohmann::ordered_json to_json(const std::vector<identify_summary>& summaries);

/// One line per pair of layers and offset, one column per map and distance.
void print_summaries(const std::string& experiment, const std::vector<identify_summary>& summaries);

/// The chart of an experiment, as in the paper, with bars of one standard deviation.
std::string identify_chart(const std::string& title, const std::string& experiment,
                           const std::vector<identify_summary>& summaries);

/// Whether a row belongs to an experiment: "generalisation" has several kinds of rows.
bool is_of(const std::string& experiment, const identify_row& row);

}  // namespace nullscope::cli

/// What `nullscope attention` writes and prints.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nullscope/model/model_states.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lib/cli/common/previous_work.hpp"

namespace nullscope::cli {

struct attention_report {
  std::string model;
  nlohmann::ordered_json settings;
  std::int64_t layers = 0, heads = 0, value_size = 0;
  bool by_rows = false;
  std::vector<std::string> classes;
  std::vector<std::int64_t> class_tokens;      ///< tokens of each class, in all texts
  std::optional<std::int64_t> rest;            ///< the class of all other tokens, which charts leave out
  std::optional<std::int32_t> separator;       ///< the class that fig. 5 looks at
  std::vector<std::int64_t> texts;             ///< index in the file
  std::vector<text_attention<float>> numbers;  ///< of these texts, in the same order
  class_averages averages, rollout;

  /// Name of a class, or of all tokens.
  const std::string& name(std::int64_t from) const;
};

/// The files of a report.
output_place place_of_attention(const std::filesystem::path& folder);

/// classes.csv, heads.csv, attention.json, attention.svg, and rollout.csv if there is a rollout.
void write_attention(const std::filesystem::path& folder, const attention_report& report);

/// One line per layer: correlation, null space, entropy, and attention to each class.
void print_attention(const attention_report& report);

/// The charts of the paper: correlation over the length; heads as points, means of layers as lines.
std::string attention_chart(const attention_report& report);

}  // namespace nullscope::cli

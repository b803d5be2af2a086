/// Tables of texts with labels.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nullscope/training/text_classifier.hpp>
#include <string>
#include <vector>

namespace nullscope::cli {

/// The columns of a table that matter.
struct text_columns {
  std::string text = "text", pair, label = "label";  ///< pair: empty if there is none
};

struct labelled_text {
  text_input input;
  std::string label;
  std::int64_t line;  ///< where it stands in the file
};

/// Reads CSV, or TSV by the file's name. Throws file_error with the line: broken CSV, an empty text or label, a label
/// that is not UTF-8, a column that is not there, no texts.
std::vector<labelled_text> read_labelled_texts(const std::filesystem::path& path, const text_columns& columns);

/// Tells the texts apart in the settings of a run.
std::string checksum_of(const std::vector<labelled_text>& texts);

/// The labels that occur, each once, numbers in their order and before all else.
std::vector<std::string> labels_of(const std::vector<labelled_text>& texts);

/// Examples for a model, and what was cut.
struct encoded_texts {
  std::vector<training_example> examples;
  std::int64_t cut = 0, first_cut_line = 0;
};

/// Throws file_error, naming line and labels, if a label is not one of those known.
encoded_texts encode_texts(const std::filesystem::path& path, const std::vector<labelled_text>& texts,
                           const transformer_config& config, const text_encoder& encoder, std::int64_t max_length,
                           const std::vector<std::string>& labels);

/// Reports texts that were cut: a warning on stderr, or file_error if they are refused.
void report_cut(const std::filesystem::path& path, const encoded_texts& texts, std::int64_t max_length, bool refuses);

}  // namespace nullscope::cli

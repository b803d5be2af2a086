/// What `nullscope explain` writes: a table, explain.json, explain.csv and pictures.
#pragma once

#include <filesystem>
#include <nullscope/explain/explanations.hpp>
#include <span>
#include <string>
#include <vector>

#include "lib/cli/common/text_input.hpp"

namespace nullscope::cli {

struct explained_result {
  std::string text;
  std::int64_t index = 0;           ///< of the text in its file
  std::vector<std::string> tokens;  ///< as the vocabulary writes them
  encoded_text encoded;             ///< its offsets are in bytes of `text`; none with --ids
  explanation found;
  std::string label;  ///< of the explained class
};

/// Whether a token has scores of its own.
bool has_scores(const explained_result& result, std::size_t place);

/// One text on standard output: the tokens with the largest scores.
void print_table(const explained_result& result, std::string_view method, std::int64_t most_tokens);

/// explain.json and explain.csv.
void write_tables(const std::filesystem::path& folder, std::span<const explained_result> results,
                  std::string_view method);

/// Values against importances, with the tokens: only for SLALOM.
std::string scatter_chart(const explained_result& result);

/// The text with its tokens marked: blue speaks for the class, orange against it.
std::string marked_text(const explained_result& result);

}  // namespace nullscope::cli

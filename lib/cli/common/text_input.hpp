/// The texts that a command gives to a model: the same options, rules and messages in every command.
///
///   text_input_options input;                        // a member of the command's options
///   add_text_input(*command, input);                 // --model --text --text-pair --ids --file ...
///   ...
///   text_source texts(input);                        // checks the options, finds the model, opens the file
///   const auto model = load_transformer<float>(ctx, texts.folder());
///   for (input_text text; texts.next(text);) use(text.sequence(texts.model().config));
///
/// Input is exactly one of --text (with --text-pair), --ids (no tokenizer, no special tokens) and --file (one text per
/// line, or a table with --text-column and --pair-column). Texts that are too long are cut, with one warning in the
/// end, or refused with --too-long refuse. Texts without a token of their own are an error for --text; in a file they
/// are skipped, with a warning.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nullscope/model/model_folder.hpp>
#include <nullscope/model/transformer.hpp>
#include <nullscope/text/text_encoder.hpp>
#include <nullscope/text/tokenizer.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lib/cli/common/checksum.hpp"

namespace nullscope::cli {

struct text_input_options {
  std::string model{default_model};  ///< a name or a folder
  std::optional<std::string> text, pair;
  std::vector<std::int32_t> ids;
  std::string file, text_column, pair_column;
  std::string tag_column, pair_tag_column;  ///< declared by commands that read tags
  std::int64_t max_length = 0;              ///< in tokens; 0: what the model takes
  std::string too_long = "truncate";
  bool warns = true;  ///< of texts that were cut or skipped
};

/// Declares the options.
void add_text_input(CLI::App& command, text_input_options& options);

struct input_text {
  encoded_text tokens;                         ///< with --ids only ids, and segments 0
  std::string text, pair;                      ///< empty with --ids
  std::optional<std::string> tags, pair_tags;  ///< of the words of the texts, if there are columns of tags
  std::int64_t index = 0;                      ///< of the text in its file, from 0; empty texts count
  std::string origin;                          ///< for messages: "--text", "reviews.csv, line 7"

  /// What token_batch takes: segments only if the model has them.
  token_batch::sequence sequence(const transformer_config& config) const;
};

/// Identifies the texts in the settings of a run, by their tokens, characters and tags.
std::string checksum_of(const std::vector<input_text>& texts);
void add_to(checksum& sum, const input_text& text);

class text_source {
 public:
  /// Throws usage_error on options that do not fit together, file_error on a model or file that cannot be used. A model
  /// given by name is fetched on first use, with a note on stderr.
  explicit text_source(const text_input_options& options);
  ~text_source();

  const std::filesystem::path& folder() const { return folder_; }
  const model_description& model() const { return model_; }

  /// Whether the texts come from a file: results are then named by `index`.
  bool is_file() const { return !options_.file.empty(); }
  const std::string& file() const { return options_.file; }

  /// The next text; false at the end. Throws file_error, naming the line, and invalid_argument: a text that is refused,
  /// a pair for a model that reads none, an id out of range.
  bool next(input_text& out);

  /// All texts that are left, or the first `limit` (0: all). Throws file_error if there are none.
  std::vector<input_text> rest(std::int64_t limit);

  /// The tokenizer; null with --ids.
  const text_encoder* encoder() const;

  /// The token as the vocabulary writes it; with --ids the id itself.
  std::string token(std::int32_t id) const;

 private:
  struct reader;

  void encode(input_text& out) const;
  void warn() const;

  text_input_options options_;
  std::filesystem::path folder_;
  model_description model_;
  std::int64_t max_length_ = 0;
  std::unique_ptr<reader> reader_;
  std::int64_t read_ = 0, cut_ = 0, empty_ = 0;
  std::string first_cut_, first_empty_;  // their origins
};

}  // namespace nullscope::cli

#include "lib/cli/common/text_input.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nullscope/core/errors.hpp>
#include <utility>
#include <variant>

#include "lib/cli/commands.hpp"
#include "lib/cli/common/validators.hpp"
#include "lib/src/io/csv.hpp"

namespace nullscope::cli {
namespace {

bool is_table(const std::filesystem::path& file) {
  std::string ending = file.extension().string();
  std::ranges::transform(ending, ending.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return ending == ".csv" || ending == ".tsv" || ending == ".tab";
}

void check(const text_input_options& options) {
  const int inputs = options.text.has_value() + !options.ids.empty() + !options.file.empty();
  if (inputs != 1) throw usage_error("one of --text, --ids and --file is needed");
  if (options.pair && !options.text) throw usage_error("--text-pair needs --text");
  if (options.file.empty() && !options.text_column.empty()) throw usage_error("--text-column needs --file");
  if (options.text_column.empty() && !options.pair_column.empty()) {
    throw usage_error("--pair-column needs --text-column");
  }
  if (options.text_column.empty() && !options.tag_column.empty()) throw usage_error("--tag-column needs --text-column");
  if (!options.pair_tag_column.empty() && (options.pair_column.empty() || options.tag_column.empty())) {
    throw usage_error("--pair-tag-column needs --pair-column and --tag-column");
  }
  if (options.text_column.empty() && is_table(options.file)) {
    throw usage_error(fmt::format("{} is a table: name the column of the texts with --text-column", options.file));
  }
}

}  // namespace

void add_text_input(CLI::App& command, text_input_options& options) {
  command.add_option("--model", options.model, "Name of a model (see nullscope models) or a model folder")
      ->capture_default_str()
      ->check(some_path());
  command.add_option("--text", options.text, "A text");
  command.add_option("--text-pair", options.pair, "A second text, for models that read two");
  command.add_option("--ids", options.ids, "Token ids, separated by commas; no special tokens are added")
      ->delimiter(',');
  command.add_option("--file", options.file, "A file with one text per line, or a table (.csv, .tsv)")
      ->check(some_path());
  command.add_option("--text-column", options.text_column, "The column of the table that holds the texts");
  command.add_option("--pair-column", options.pair_column, "The column of the table that holds the second texts");
  command
      .add_option("--max-length", options.max_length,
                  "Maximum number of tokens per text, including special tokens (default: the limit of the model)")
      ->check(positive_integer());
  command
      .add_option("--too-long", options.too_long, "What to do with longer texts: truncate (with a warning) or refuse")
      ->capture_default_str()
      ->check(CLI::IsMember({"truncate", "refuse"}));
}

token_batch::sequence input_text::sequence(const transformer_config& config) const {
  return {tokens.ids, config.segments > 0 ? tokens.segments : std::vector<std::int32_t>{}};
}

/// The source of the texts, and their tokenizer.
struct text_source::reader {
  std::variant<std::monostate, csv_reader, line_reader> file;
  std::size_t text_column = 0, pair_column = 0;
  std::optional<std::size_t> tag_column, pair_tag_column;
  std::vector<std::string> fields;
  std::optional<text_encoder> encoder;  ///< none with --ids

  /// Reads a record of the file; false at the end.
  bool next(const text_input_options& options, input_text& out) {
    std::int64_t line = 0;
    if (line_reader* lines = std::get_if<line_reader>(&file)) {
      if (!lines->next(out.text)) return false;
      line = lines->line();
    } else {
      csv_reader& table = std::get<csv_reader>(file);
      if (!table.next(fields)) return false;
      line = table.line();
      out.text = fields[text_column];
      if (!options.pair_column.empty()) out.pair = fields[pair_column];
      if (tag_column) out.tags = fields[*tag_column];
      if (pair_tag_column) out.pair_tags = fields[*pair_tag_column];
    }
    out.origin = fmt::format("{}, line {}", options.file, line);
    return true;
  }
};

text_source::text_source(const text_input_options& options) : options_(options), reader_(std::make_unique<reader>()) {
  check(options);
  folder_ = resolve_model(options.model, [](std::string_view text) { fmt::print(stderr, "{}\n", text); });
  model_ = describe_model(folder_);
  max_length_ =
      options.max_length > 0 ? std::min(options.max_length, model_.config.positions) : model_.config.positions;
  if (!options.ids.empty()) return;
  reader_->encoder.emplace(folder_);
  const bool is_pair = options.pair.has_value() || !options.pair_column.empty();
  if (is_pair && !reader_->encoder->joins_pairs()) {
    throw usage_error("this model reads the two texts of a pair one by one; give it single texts");
  }
  if (options.file.empty()) return;
  if (options.text_column.empty()) {
    reader_->file.emplace<line_reader>(options.file);
    return;
  }
  const csv_reader& table = reader_->file.emplace<csv_reader>(options.file);
  reader_->text_column = table.column(options.text_column);
  if (!options.pair_column.empty()) reader_->pair_column = table.column(options.pair_column);
  if (!options.tag_column.empty()) reader_->tag_column = table.column(options.tag_column);
  if (!options.pair_tag_column.empty()) reader_->pair_tag_column = table.column(options.pair_tag_column);
}

text_source::~text_source() = default;

const text_encoder* text_source::encoder() const { return reader_->encoder ? &*reader_->encoder : nullptr; }

void text_source::encode(input_text& out) const {
  if (!options_.ids.empty()) {
    out.tokens.ids = options_.ids;
    for (std::size_t i = 0; i < out.tokens.ids.size(); ++i) {
      const std::int32_t id = out.tokens.ids[i];
      if (id >= 0 && id < model_.config.vocabulary) continue;
      throw usage_error(
          fmt::format("--ids: {}, at place {}, is not from 0 to {}", id, i, model_.config.vocabulary - 1));
    }
    out.tokens.truncated = std::cmp_greater(out.tokens.ids.size(), max_length_);
    if (out.tokens.truncated) out.tokens.ids.resize(static_cast<std::size_t>(max_length_));
    out.tokens.segments.assign(out.tokens.ids.size(), 0);
  } else {
    encode_options how{.max_length = max_length_};
    if (options_.pair.has_value() || !options_.pair_column.empty()) how.pair = out.pair;
    out.tokens = reader_->encoder->encode(out.text, how);
  }
  if (out.tokens.truncated && options_.too_long == "refuse") {
    throw invalid_argument(fmt::format("{}: the text has more than {} tokens", out.origin, max_length_));
  }
}

bool text_source::next(input_text& out) {
  while (true) {
    out = {};
    out.index = read_;
    if (is_file()) {
      if (!reader_->next(options_, out)) break;
    } else {
      if (read_ > 0) break;
      out.origin = options_.ids.empty() ? "--text" : "--ids";
      out.text = options_.text.value_or("");
      out.pair = options_.pair.value_or("");
    }
    ++read_;
    encode(out);
    const std::vector<std::uint8_t>& special = out.tokens.special_mask;  // none with --ids
    if (options_.ids.empty() && std::ranges::all_of(special, [](std::uint8_t added) { return added != 0; })) {
      if (!is_file()) throw usage_error("--text has no tokens");
      if (empty_++ == 0) first_empty_ = out.origin;
      continue;
    }
    if (out.tokens.truncated && cut_++ == 0) first_cut_ = out.origin;
    return true;
  }
  if (options_.warns && empty_ < read_) warn();
  return false;
}

std::vector<input_text> text_source::rest(std::int64_t limit) {
  std::vector<input_text> texts;
  input_text text;
  while ((limit == 0 || std::cmp_less(texts.size(), limit)) && next(text)) texts.push_back(std::move(text));
  if (texts.empty()) throw file_error(fmt::format("{}: there are no texts", file()));
  return texts;
}

void text_source::warn() const {
  if (cut_ > 0) {
    fmt::print(stderr, "nullscope: warning: {} of {} texts had more than {} tokens and were cut (first: {})\n", cut_,
               read_, max_length_, first_cut_);
  }
  if (empty_ > 0) {
    fmt::print(stderr, "nullscope: warning: {} of {} texts were empty and were skipped (first: {})\n", empty_, read_,
               first_empty_);
  }
}

void add_to(checksum& sum, const input_text& text) {
  sum.add(static_cast<std::uint64_t>(text.index));
  for (const std::vector<std::int32_t>* numbers : {&text.tokens.ids, &text.tokens.segments}) {
    sum.add(numbers->size());
    sum.add(numbers->data(), numbers->size() * sizeof(std::int32_t));
  }
  for (const std::string& part : {text.text, text.pair, text.tags.value_or(""), text.pair_tags.value_or("")}) {
    sum.add_text(part);
  }
}

std::string checksum_of(const std::vector<input_text>& texts) {
  checksum sum;
  for (const input_text& text : texts) add_to(sum, text);
  return sum.text();
}

std::string text_source::token(std::int32_t id) const {
  return encoder() != nullptr ? std::string(encoder()->token(id)) : std::to_string(id);
}

}  // namespace nullscope::cli

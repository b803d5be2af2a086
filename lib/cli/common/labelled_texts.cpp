#include "lib/cli/common/labelled_texts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <nullscope/core/errors.hpp>
#include <set>
#include <unordered_map>

#include "lib/cli/common/checksum.hpp"
#include "lib/src/io/csv.hpp"

namespace nullscope::cli {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, std::int64_t line, const std::string& text) {
  throw file_error(fmt::format("{}: line {}: {}", path.string(), line, text));
}

bool is_blank(const std::string& text) { return text.find_first_not_of(" \t\r\n") == std::string::npos; }

/// JSON holds UTF-8 only: other bytes would be dropped or replaced.
bool is_utf8(const std::string& text) {
  using json = nlohmann::json;
  const json value(text);
  return value.dump(-1, ' ', false, json::error_handler_t::ignore) ==
         value.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::optional<double> number_in(const std::string& text) {
  double number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// Numbers by their value, before all else.
bool goes_before(const std::string& a, const std::string& b) {
  const std::optional<double> x = number_in(a), y = number_in(b);
  if (x && y && *x != *y) return *x < *y;
  if (x.has_value() != y.has_value()) return x.has_value();
  return a < b;
}

}  // namespace

std::vector<labelled_text> read_labelled_texts(const std::filesystem::path& path, const text_columns& columns) {
  csv_reader table(path);
  const std::size_t text = table.column(columns.text), label = table.column(columns.label);
  const std::size_t pair = columns.pair.empty() ? 0 : table.column(columns.pair);
  std::vector<labelled_text> texts;
  for (std::vector<std::string> fields; table.next(fields);) {
    const auto require = [&](const std::string& name, const std::string& field) {
      if (is_blank(field)) fail(path, table.line(), fmt::format("column {} is empty", name));
    };
    require(columns.text, fields[text]);
    require(columns.label, fields[label]);
    if (!is_utf8(fields[label])) {  // a model folder could not hold it
      fail(path, table.line(), fmt::format("column {} is not UTF-8; convert the file", columns.label));
    }
    labelled_text& read = texts.emplace_back();
    read.line = table.line();
    read.label = fields[label];
    if (!columns.pair.empty()) {
      require(columns.pair, fields[pair]);
      read.input.pair = fields[pair];
    }
    read.input.text = std::move(fields[text]);
  }
  if (texts.empty()) throw file_error(fmt::format("{}: there are no texts", path.string()));
  return texts;
}

std::string checksum_of(const std::vector<labelled_text>& texts) {
  checksum sum;
  for (const labelled_text& text : texts) {
    for (const std::string& part : {text.input.text, text.input.pair.value_or(""), text.label}) sum.add_text(part);
    sum.add(static_cast<std::uint64_t>(text.line));
  }
  return sum.text();
}

std::vector<std::string> labels_of(const std::vector<labelled_text>& texts) {
  std::set<std::string> found;
  for (const labelled_text& text : texts) found.insert(text.label);
  std::vector<std::string> labels(found.begin(), found.end());
  std::ranges::sort(labels, goes_before);
  return labels;
}

encoded_texts encode_texts(const std::filesystem::path& path, const std::vector<labelled_text>& texts,
                           const transformer_config& config, const text_encoder& encoder, std::int64_t max_length,
                           const std::vector<std::string>& labels) {
  std::unordered_map<std::string, std::int32_t> number_of;
  for (std::size_t i = 0; i < labels.size(); ++i) number_of.emplace(labels[i], static_cast<std::int32_t>(i));
  encoded_texts encoded;
  for (const labelled_text& text : texts) {
    const auto label = number_of.find(text.label);
    if (label == number_of.end()) {
      fail(path, text.line, fmt::format("the label \"{}\" is not one of {}", text.label, fmt::join(labels, ", ")));
    }
    bool was_cut = false;
    encoded.examples.push_back(example_of(config, encoder, text.input, max_length, &was_cut));
    encoded.examples.back().labels = {label->second};
    if (was_cut && encoded.cut++ == 0) encoded.first_cut_line = text.line;
  }
  return encoded;
}

void report_cut(const std::filesystem::path& path, const encoded_texts& texts, std::int64_t max_length, bool refuses) {
  if (texts.cut == 0) return;
  const std::string message =
      fmt::format("{} of {} texts have more than {} tokens", texts.cut, texts.examples.size(), max_length);
  if (refuses) fail(path, texts.first_cut_line, fmt::format("{}; this is the first", message));
  fmt::print(stderr, "nullscope: {}: {}; they are cut at their end\n", path.string(), message);
}

}  // namespace nullscope::cli

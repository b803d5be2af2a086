#include <fmt/format.h>

#include <algorithm>
#include <nullscope/core/errors.hpp>
#include <nullscope/text/text_encoder.hpp>
#include <unordered_map>
#include "lib/src/io/csv.hpp"

namespace nullscope {
namespace {

/// A period or a comma, also as a piece of a word or after a blank, as WordPiece and byte-level BPE write them.
bool is_period_or_comma(std::string_view token) {
  for (const std::string_view mark : {"##", "\xc4\xa0"}) {  // U+0120 stands for a blank
    if (token.starts_with(mark)) token.remove_prefix(mark.size());
  }
  return token == "." || token == ",";
}

}  // namespace

token_classifier::token_classifier(const text_encoder& encoder) : encoder_(encoder) {
  const special_token_ids special = encoder.special_ids();
  const std::optional<std::int32_t> start = special.cls ? special.cls : special.bos,
                                    separator = special.sep ? special.sep : special.eos;
  for (const std::optional<std::int32_t>& id : {start, separator}) {
    if (!id || std::ranges::find(ids_, *id) != ids_.end()) continue;
    ids_.push_back(*id);
    names_.emplace_back(encoder.token(*id));
  }
  if (separator) {
    separator_ = static_cast<std::int32_t>(std::ranges::find(ids_, *separator) - ids_.begin());
  }
  names_.insert(names_.end(), {"periods and commas", "other"});
}

std::vector<std::int32_t> token_classifier::classify(const std::vector<std::int32_t>& ids) const {
  const auto special = static_cast<std::int32_t>(ids_.size());
  std::vector<std::int32_t> classes;
  for (const std::int32_t id : ids) {
    const auto found = static_cast<std::int32_t>(std::ranges::find(ids_, id) - ids_.begin());
    classes.push_back(found < special ? found : is_period_or_comma(encoder_.token(id)) ? special : special + 1);
  }
  return classes;
}

token_class_file::token_class_file(const std::filesystem::path& file) : file_(file) {
  constexpr std::string_view blanks = " \t\r";
  std::unordered_map<std::string, std::int32_t> numbers;
  line_reader lines(file);
  for (std::string line; lines.next(line);) {
    std::vector<std::int32_t>& classes = lines_.emplace_back();
    for (std::size_t at = line.find_first_not_of(blanks); at != std::string::npos;) {
      const std::size_t end = std::min(line.find_first_of(blanks, at), line.size());
      const std::string name = line.substr(at, end - at);
      const auto [place, is_new] = numbers.emplace(name, static_cast<std::int32_t>(names_.size()));
      if (is_new) names_.push_back(name);
      classes.push_back(place->second);
      at = line.find_first_not_of(blanks, end);
    }
  }
  if (names_.empty()) throw file_error(fmt::format("{}: there are no classes of tokens", file.string()));
}

const std::vector<std::int32_t>& token_class_file::classes(std::int64_t text, std::int64_t tokens) const {
  if (text >= std::ssize(lines_)) {
    throw file_error(fmt::format("{}: has {} lines, but text {} needs one", file_.string(), lines_.size(), text + 1));
  }
  const std::vector<std::int32_t>& found = lines_[static_cast<std::size_t>(text)];
  if (std::ssize(found) != tokens) {
    throw file_error(fmt::format("{}, line {}: {} classes for a text of {} tokens, special tokens included",
                                 file_.string(), text + 1, found.size(), tokens));
  }
  return found;
}

void token_class_file::check_texts(std::int64_t texts) const {
  for (std::int64_t i = texts; i < std::ssize(lines_); ++i) {
    if (lines_[static_cast<std::size_t>(i)].empty()) continue;
    throw file_error(fmt::format("{}, line {}: classes of a text that is not there; there are {} texts", file_.string(),
                                 i + 1, texts));
  }
}

}  // namespace nullscope

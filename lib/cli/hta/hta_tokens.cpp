#include "lib/cli/hta/hta_tokens.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nullscope/core/errors.hpp>
#include <set>
#include <string_view>

namespace nullscope::cli {
namespace {

constexpr std::string_view white_space = " \t\r\n\f\v";

/// The words between white space, as places in the text.
std::vector<text_range> split(std::string_view text) {
  std::vector<text_range> words;
  for (std::size_t begin = text.find_first_not_of(white_space); begin != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(white_space, begin), text.size());
    words.push_back({static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end)});
    begin = text.find_first_not_of(white_space, end);
  }
  return words;
}

std::string part_of(const std::string& text, const text_range& range) {
  return text.substr(static_cast<std::size_t>(range.begin), static_cast<std::size_t>(range.end - range.begin));
}

const std::string& source_text(const input_text& text, std::size_t token) {
  return text.tokens.sources[token] == 1 ? text.pair : text.text;
}

bool is_special(const input_text& text, std::size_t token) {
  return !text.tokens.special_mask.empty() && text.tokens.special_mask[token] != 0;
}

bool is_punctuation(std::string_view token) {
  return !token.empty() && std::ranges::all_of(token, [](unsigned char c) { return c < 128 && std::ispunct(c); });
}

/// Whether the token continues the word of the one before.
bool continues_word(const encoded_text& tokens, std::size_t i) {
  return tokens.words.size() == tokens.ids.size() && i > 0 && tokens.words[i] >= 0 &&
         tokens.words[i] == tokens.words[i - 1] && tokens.sources[i] == tokens.sources[i - 1];
}

std::string class_of(const input_text& text, std::size_t i, const std::string& token) {
  if (is_special(text, i)) return token;
  if (is_punctuation(token)) return "punctuation";
  return continues_word(text.tokens, i) ? "word piece" : "word";
}

/// The tag of the word, between white space, in which the token begins; tokens may begin with the space before it.
std::string tag_of(const input_text& text, std::size_t i) {
  const std::optional<std::string>& tags = text.tokens.sources[i] == 1 ? text.pair_tags : text.tags;
  if (!tags) return "without a tag";
  const std::string& from = source_text(text, i);
  const std::vector<text_range> words = split(from), places = split(*tags);
  const auto begin = static_cast<std::size_t>(text.tokens.offsets[i].begin);
  const auto at = static_cast<std::int64_t>(std::min(from.find_first_not_of(white_space, begin), from.size()));
  const auto after = std::ranges::upper_bound(words, at, {}, &text_range::begin) - words.begin();
  return part_of(*tags, places[static_cast<std::size_t>(std::max<std::ptrdiff_t>(after, 1) - 1)]);
}

void check_tags_of(const input_text& text, const std::string& words, const std::string& tags) {
  const std::size_t needed = split(words).size(), given = split(tags).size();
  if (needed == given) return;
  throw file_error(fmt::format("{}: {} tags for {} words; there must be one for each word between white space",
                               text.origin, given, needed));
}

}  // namespace

void check_tags(const input_text& text) {
  if (text.tags) check_tags_of(text, text.text, *text.tags);
  if (text.pair_tags) check_tags_of(text, text.pair, *text.pair_tags);
}

hta_tokens describe_tokens(const input_text& text, const text_source& source) {
  hta_tokens result;
  for (std::size_t i = 0; i < text.tokens.ids.size(); ++i) {
    const std::string token = source.token(text.tokens.ids[i]);
    result.labels.push_back(token);
    result.classes.push_back(class_of(text, i, token));
    if (result.separator < 0 && i > 0 && is_special(text, i)) result.separator = static_cast<std::int64_t>(i);
    if (text.tags) result.tags.push_back(is_special(text, i) ? token : tag_of(text, i));
  }
  return result;
}

std::vector<std::int32_t> words_of(const input_text& text) {
  std::vector<std::int32_t> words = text.tokens.words;
  std::int32_t most = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (text.tokens.sources[i] == 0) most = std::max(most, words[i] + 1);
  }
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (text.tokens.sources[i] == 1 && words[i] >= 0) words[i] += most;
  }
  return words;
}

hta_tokens describe_words(const input_text& text, const text_source& source) {
  const hta_tokens tokens = describe_tokens(text, source);
  const std::vector<std::int32_t> words = words_of(text);
  hta_tokens result;
  std::set<std::int32_t> known;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (static_cast<std::int64_t>(i) == tokens.separator) {
      result.separator = static_cast<std::int64_t>(result.labels.size());
    }
    if (words[i] >= 0 && !known.insert(words[i]).second) continue;
    text_range range = text.tokens.offsets[i];
    for (std::size_t k = i; k < words.size(); ++k) {
      if (words[i] >= 0 && words[k] == words[i]) range.end = text.tokens.offsets[k].end;
    }
    result.labels.push_back(is_special(text, i) ? tokens.labels[i] : part_of(source_text(text, i), range));
    result.classes.push_back(tokens.classes[i]);
    if (!tokens.tags.empty()) result.tags.push_back(tokens.tags[i]);
  }
  return result;
}

}  // namespace nullscope::cli

#include "lib/src/text/bert_text.hpp"

#include <utility>

namespace nullscope::detail {

namespace {

bool is_removed(char32_t character) {
  if (character == '\t' || character == '\n' || character == '\r') return false;
  return character == replacement_character || is_control_or_private(character);
}

aligned_text clean(const aligned_text& text, const bert_text_rules& rules) {
  aligned_text result;
  result.characters.reserve(text.size());
  result.origin.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    char32_t character = text.characters[i];
    if (rules.clean_text) {
      if (is_removed(character)) continue;
      if (is_white_space(character)) character = ' ';
    }
    const bool is_split = rules.split_ideographs && is_ideograph(character);
    if (is_split) result.append(' ', text.origin[i]);
    result.append(character, text.origin[i]);
    if (is_split) result.append(' ', text.origin[i]);
  }
  return result;
}

void remove_marks(aligned_text& text) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (is_nonspacing_mark(text.characters[i])) continue;
    text.characters[kept] = text.characters[i];
    text.origin[kept++] = text.origin[i];
  }
  text.characters.resize(kept);
  text.origin.resize(kept);
}

}  // namespace

aligned_text normalise(aligned_text text, const bert_text_rules& rules) {
  if (rules.clean_text || rules.split_ideographs) text = clean(text, rules);
  if (rules.strip_accents) {
    decompose(text);
    remove_marks(text);
  }
  if (rules.lower_case) lower_case(text);
  return text;
}

std::vector<word_range> split_words(const aligned_text& text) {
  std::vector<word_range> words;
  std::size_t begin = 0;
  const auto end_word = [&](std::size_t end) {
    if (begin < end) words.push_back({begin, end});
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_space = is_white_space(text.characters[i]);
    if (!is_space && !is_punctuation(text.characters[i])) continue;
    end_word(i);
    if (!is_space) words.push_back({i, i + 1});
    begin = i + 1;
  }
  end_word(text.size());
  return words;
}

}  // namespace nullscope::detail

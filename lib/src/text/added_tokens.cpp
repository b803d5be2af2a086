#include "lib/src/text/added_tokens.hpp"

#include <algorithm>
#include <utility>

namespace nullscope::detail {

namespace {

bool adjoins_word(std::u32string_view text, word_range match) {
  return (match.begin > 0 && is_word_character(text[match.begin - 1])) ||
         (match.end < text.size() && is_word_character(text[match.end]));
}

/// With the white space that the token takes, as far as the end of the token before it.
word_range widened(std::u32string_view text, word_range match, const added_token& token, std::size_t least_begin) {
  if (token.takes_left_space) {
    while (match.begin > least_begin && is_white_space(text[match.begin - 1])) --match.begin;
  }
  if (token.takes_right_space) {
    while (match.end < text.size() && is_white_space(text[match.end])) ++match.end;
  }
  return match;
}

}  // namespace

added_tokens::added_tokens(std::vector<added_token> tokens, const text_model& model) {
  for (added_token& token : tokens) {
    if (token.is_special) special_.insert(token.id);
    aligned_text characters = decode_utf8(token.text);
    if (token.is_normalised) characters = model.normalise(std::move(characters));
    if (characters.size() == 0) continue;
    pattern_list& list = token.is_normalised ? normalised_ : given_;
    const char32_t first = characters.characters[0];
    if (list.first_characters.find(first) == std::u32string::npos) list.first_characters.push_back(first);
    list.longest_first.push_back({std::move(characters.characters), std::move(token)});
  }
  for (pattern_list* list : {&given_, &normalised_}) {
    std::ranges::stable_sort(list->longest_first, std::ranges::greater{},
                             [](const pattern& p) { return p.characters.size(); });
  }
}

std::vector<added_tokens::part> added_tokens::split(std::u32string_view text, const pattern_list& patterns) {
  std::vector<part> parts;
  std::size_t done = 0, place = 0;
  while ((place = text.find_first_of(patterns.first_characters, place)) != std::u32string_view::npos) {
    const auto found = std::ranges::find_if(
        patterns.longest_first, [&](const pattern& p) { return text.substr(place).starts_with(p.characters); });
    if (found == patterns.longest_first.end()) {
      ++place;
      continue;
    }
    const word_range match{place, place + found->characters.size()};
    place = match.end;
    if (found->token.is_single_word && adjoins_word(text, match)) continue;
    const word_range range = widened(text, match, found->token, done);
    if (done < range.begin) parts.push_back({std::nullopt, {done, range.begin}});
    parts.push_back({found->token.id, range});
    done = place = range.end;
  }
  if (done < text.size()) parts.push_back({std::nullopt, {done, text.size()}});
  return parts;
}

}  // namespace nullscope::detail

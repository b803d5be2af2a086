#include "lib/src/text/wordpiece.hpp"

#include <array>
#include <utility>

namespace nullscope::detail {

namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

/// English as it is written, on one token with the space before it.
void clean_up(std::string& text) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 11> rules{{{" .", "."},
                                                                                 {" ?", "?"},
                                                                                 {" !", "!"},
                                                                                 {" ,", ","},
                                                                                 {" ' ", "'"},
                                                                                 {" n't", "n't"},
                                                                                 {" 'm", "'m"},
                                                                                 {" do not", " don't"},
                                                                                 {" 's", "'s"},
                                                                                 {" 've", "'ve"},
                                                                                 {" 're", "'re"}}};
  for (const auto& [from, to] : rules) replace_all(text, from, to);
}

}  // namespace

wordpiece::wordpiece(const vocabulary& tokens, wordpiece_options options) : options_(std::move(options)) {
  for (const auto& [token, id] : tokens.ids()) {
    beginnings_.add(token, id);
    if (token.starts_with(options_.continuation_prefix)) {
      continuations_.add(std::string_view(token).substr(options_.continuation_prefix.size()), id);
    }
  }
}

aligned_text wordpiece::normalise(aligned_text text) const {
  return detail::normalise(std::move(text), options_.rules);
}

/// False if some part of the word is no token. Tokens are whole characters, so the pieces are.
bool wordpiece::split(std::string_view word, std::vector<piece>& pieces) const {
  pieces.clear();
  for (std::size_t begin = 0; begin < word.size();) {
    const auto [id, size] = (begin == 0 ? beginnings_ : continuations_).find(word.substr(begin));
    if (size == 0) return false;
    pieces.push_back({id, begin, begin + size});
    begin += size;
  }
  return true;
}

void wordpiece::tokenise(const aligned_text& text, token_list& tokens) const {
  std::string word;
  std::vector<std::size_t> character_at;  // byte of the word -> character of the text
  std::vector<piece> pieces;
  for (const auto [begin, end] : split_words(text)) {
    word.clear();
    character_at.clear();
    for (std::size_t i = begin; i < end; ++i) {
      append_utf8(word, text.characters[i]);
      character_at.resize(word.size(), i);
    }
    const bool is_too_long = static_cast<std::int64_t>(end - begin) > options_.longest_word;
    if (is_too_long || !split(word, pieces)) pieces = {{options_.unknown_id, 0, word.size()}};
    for (const piece& p : pieces) {
      const text_range from{text.origin[character_at[p.begin]].begin, text.origin[character_at[p.end - 1]].end};
      tokens.append(p.id, from);
    }
    ++tokens.next_word;
  }
}

std::string wordpiece::decode(std::span<const std::string_view> tokens) const {
  std::string text;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    std::string token(tokens[i]);
    if (i > 0) {
      if (token.starts_with(options_.continuation_prefix)) {
        token.erase(0, options_.continuation_prefix.size());
      } else {
        token.insert(token.begin(), ' ');
      }
    }
    if (options_.clean_up_decoded) clean_up(token);
    text += token;
  }
  return text;
}

}  // namespace nullscope::detail

/// Unicode as the tokenizers of real models see it. Each takes the properties of characters from the version of Unicode
/// that its tables were made from, not from that of the ICU which is installed; equal tokens need equal properties.
#pragma once

#include <nullscope/text/tokenizer.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace nullscope::detail {

inline constexpr char32_t replacement_character = 0xfffd;  ///< stands for bytes that are not UTF-8

/// Characters, each with the bytes of the given text that it stands for.
struct aligned_text {
  std::u32string characters;
  std::vector<text_range> origin;

  std::size_t size() const { return characters.size(); }
  void append(char32_t character, text_range from) {
    characters.push_back(character);
    origin.push_back(from);
  }
};

/// Characters of an aligned_text: begin is the first, end is one past the last.
struct word_range {
  std::size_t begin, end;
};

/// Each byte sequence that is not UTF-8 becomes U+FFFD, cut as Python cuts it: one for each longest beginning of a
/// character.
aligned_text decode_utf8(std::string_view text);

void append_utf8(std::string& text, char32_t character);

/// A copy in which the bytes that are not UTF-8 are written as U+FFFD.
std::string valid_utf8(std::string_view text);

/// The range of the text without this many characters at its beginning and at its end; empty if it has no more.
text_range without_ends(std::string_view text, text_range range, std::int64_t leading, std::int64_t trailing);

/// The property White_Space, the same in all versions.
bool is_white_space(char32_t character);

/// The categories Cc, Cf and Co; Mn; P and all of ASCII's punctuation: as of Unicode 8.
bool is_control_or_private(char32_t character);
bool is_nonspacing_mark(char32_t character);
bool is_punctuation(char32_t character);

/// What \w matches: letters, marks, digits, connectors.
bool is_word_character(char32_t character);

/// CJK ideographs as BERT counts them.
bool is_ideograph(char32_t character);

enum class character_kind { letter, number, white_space, other };

/// \p{L}, \p{N}, \s or none of them, as of Unicode 16.
character_kind kind_of(char32_t character);

/// Canonical decomposition and order (NFD) as of Unicode 9. The parts of a character share its origin.
void decompose(aligned_text& text);

/// Lower case, character by character, as of Unicode 17.
void lower_case(aligned_text& text);

}  // namespace nullscope::detail

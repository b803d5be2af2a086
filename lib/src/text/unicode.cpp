#include "lib/src/text/unicode.hpp"

#include <unicode/uchar.h>
#include <unicode/unorm2.h>
#include <unicode/utf16.h>
#include <unicode/utf8.h>
#include <unicode/utypes.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <nullscope/core/errors.hpp>
#include <span>

#include "lib/src/text/unicode_tables.hpp"

namespace nullscope::detail {

namespace {

constexpr char32_t ascii_end = 0x80;
constexpr char32_t first_decomposable = 0xc0;

/// Whether the character was assigned by this major version of Unicode.
bool is_in_version(char32_t character, int major) {
  UVersionInfo age;
  u_charAge(static_cast<UChar32>(character), age);
  return age[0] > 0 && age[0] <= major;
}

/// U_GC_..._MASK of the category in Unicode 8, for the categories that is_control_or_private, is_nonspacing_mark and
/// is_punctuation ask for.
std::uint32_t category_in_unicode_8(char32_t character) {
  switch (character) {  // those that have changed since
    case 0x166d: return U_GC_PO_MASK;
    case 0x1734: return U_GC_MN_MASK;
    case 0x1885:
    case 0x1886: return U_GC_LO_MASK;
    case 0xa9bd: return U_GC_MC_MASK;
    case 0x111c9: return U_GC_PO_MASK;
    default: break;
  }
  const std::uint32_t category = U_GET_GC_MASK(static_cast<UChar32>(character));
  constexpr std::uint32_t asked_for = U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK | U_GC_MN_MASK | U_GC_P_MASK;
  if ((category & asked_for) == 0) return category;
  return is_in_version(character, 8) ? category : U_GC_CN_MASK;
}

bool contains(std::span<const character_range> ranges, char32_t character) {
  const auto found = std::ranges::lower_bound(ranges, character, {}, &character_range::last);
  return found != ranges.end() && found->first <= character;
}

char32_t small_letter(char32_t character) {
  const auto found = std::ranges::lower_bound(recent_capitals, character, {}, &capital_range::last);
  if (found != recent_capitals.end() && found->first <= character) return found->small + (character - found->first);
  return static_cast<char32_t>(u_tolower(static_cast<UChar32>(character)));
}

constexpr int version_of_decompositions = 9;

/// 0 for characters that stay where they are.
int combining_class(char32_t character) {
  const int order = u_getCombiningClass(static_cast<UChar32>(character));
  return order != 0 && is_in_version(character, version_of_decompositions) ? order : 0;
}

struct decomposed_character {
  char32_t character;
  int order;      // combining class
  bool is_first;  // of the parts of a given character
};

void append_decomposed(const UNormalizer2* nfd, char32_t character, std::vector<decomposed_character>& out) {
  std::array<UChar, 16> parts;
  UErrorCode status = U_ZERO_ERROR;
  std::int32_t count = -1;
  if (character >= first_decomposable && is_in_version(character, version_of_decompositions)) {
    count = unorm2_getDecomposition(nfd, static_cast<UChar32>(character), parts.data(), std::ssize(parts), &status);
  }
  if (count < 0 || U_FAILURE(status)) {
    out.push_back({character, combining_class(character), true});
    return;
  }
  for (std::int32_t i = 0; i < count;) {
    const bool is_first = i == 0;
    UChar32 part;
    U16_NEXT(parts.data(), i, count, part);
    out.push_back({static_cast<char32_t>(part), combining_class(static_cast<char32_t>(part)), is_first});
  }
}

/// Sorts every run of combining characters by class.
void order_canonically(std::vector<decomposed_character>& text) {
  const auto combines = [](const decomposed_character& c) { return c.order != 0; };
  for (auto run = std::ranges::find_if(text, combines); run != text.end();) {
    const auto run_end = std::find_if_not(run, text.end(), combines);
    std::stable_sort(run, run_end, [](const auto& a, const auto& b) { return a.order < b.order; });
    run = std::find_if(run_end, text.end(), combines);
  }
}

}  // namespace

aligned_text decode_utf8(std::string_view text) {
  aligned_text decoded;
  decoded.characters.reserve(text.size());
  decoded.origin.reserve(text.size());
  const std::int64_t size = std::ssize(text);
  for (std::int64_t i = 0; i < size;) {
    const std::int64_t begin = i;
    UChar32 character;
    U8_NEXT_OR_FFFD(text.data(), i, size, character);
    decoded.append(static_cast<char32_t>(character), {begin, i});
  }
  return decoded;
}

void append_utf8(std::string& text, char32_t character) {
  std::array<char, U8_MAX_LENGTH> bytes;
  std::int32_t count = 0;
  U8_APPEND_UNSAFE(bytes.data(), count, static_cast<UChar32>(character));
  text.append(bytes.data(), static_cast<std::size_t>(count));
}

std::string valid_utf8(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  const std::int64_t size = std::ssize(text);
  for (std::int64_t i = 0; i < size;) {
    const std::int64_t begin = i;
    UChar32 character;
    U8_NEXT(text.data(), i, size, character);
    if (character < 0) {
      append_utf8(valid, replacement_character);
    } else {
      valid.append(text.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(i - begin)));
    }
  }
  return valid;
}

text_range without_ends(std::string_view text, text_range range, std::int64_t leading, std::int64_t trailing) {
  std::vector<std::int64_t> bounds{range.begin};  // of the characters of the range
  for (std::int64_t position = range.begin; position < range.end;) {
    U8_FWD_1(text.data(), position, range.end);
    bounds.push_back(position);
  }
  const std::int64_t last = std::ssize(bounds) - 1, first_kept = std::min(leading, last);
  const std::int64_t last_kept = std::max(last - trailing, first_kept);
  return {bounds[static_cast<std::size_t>(first_kept)], bounds[static_cast<std::size_t>(last_kept)]};
}

bool is_white_space(char32_t character) {
  if (character < ascii_end) return character == ' ' || (character >= '\t' && character <= '\r');
  return u_hasBinaryProperty(static_cast<UChar32>(character), UCHAR_WHITE_SPACE);
}

bool is_control_or_private(char32_t character) {
  if (character < ascii_end) return character < ' ' || character == 0x7f;
  return (category_in_unicode_8(character) & (U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK)) != 0;
}

bool is_nonspacing_mark(char32_t character) {
  return character >= ascii_end && (category_in_unicode_8(character) & U_GC_MN_MASK) != 0;
}

bool is_punctuation(char32_t character) {
  if (character < ascii_end) {
    const auto is_between = [character](char32_t first, char32_t last) {
      return first <= character && character <= last;
    };
    return is_between('!', '/') || is_between(':', '@') || is_between('[', '`') || is_between('{', '~');
  }
  return (category_in_unicode_8(character) & U_GC_P_MASK) != 0;
}

bool is_word_character(char32_t character) {
  const UChar32 c = static_cast<UChar32>(character);
  return u_hasBinaryProperty(c, UCHAR_ALPHABETIC) || u_hasBinaryProperty(c, UCHAR_JOIN_CONTROL) ||
         (U_GET_GC_MASK(c) & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) != 0;
}

bool is_ideograph(char32_t character) { return character >= ideographs[0].first && contains(ideographs, character); }

character_kind kind_of(char32_t character) {
  if (is_white_space(character)) return character_kind::white_space;
  const std::uint32_t category = U_GET_GC_MASK(static_cast<UChar32>(character));
  if ((category & (U_GC_L_MASK | U_GC_N_MASK)) != 0 && (character < ascii_end || is_in_version(character, 16))) {
    return (category & U_GC_L_MASK) != 0 ? character_kind::letter : character_kind::number;
  }
  if (contains(recent_letters, character)) return character_kind::letter;
  return contains(recent_numbers, character) ? character_kind::number : character_kind::other;
}

void decompose(aligned_text& text) {
  if (std::ranges::none_of(text.characters, [](char32_t c) { return c >= first_decomposable; })) return;
  UErrorCode status = U_ZERO_ERROR;
  const UNormalizer2* nfd = unorm2_getNFDInstance(&status);
  if (U_FAILURE(status)) throw error(std::string("ICU has no data for NFD: ") + u_errorName(status));
  std::vector<decomposed_character> decomposed;
  decomposed.reserve(text.size());
  for (const char32_t character : text.characters) append_decomposed(nfd, character, decomposed);
  order_canonically(decomposed);
  aligned_text result;
  std::size_t place = 0;  // behind the given character that this one belongs to, by position: order does not move it
  for (const decomposed_character& c : decomposed) {
    if (c.is_first) ++place;
    result.append(c.character, text.origin[place == 0 ? 0 : place - 1]);
  }
  text = std::move(result);
}

void lower_case(aligned_text& text) {
  constexpr char32_t dotted_capital_i = 0x130, dot_above = 0x307;  // the one character that becomes two
  for (std::size_t i = 0; i < text.size(); ++i) {
    char32_t& character = text.characters[i];
    if (character < ascii_end) {
      if (character >= 'A' && character <= 'Z') character += 'a' - 'A';
    } else if (character != dotted_capital_i) {
      character = small_letter(character);
    }
  }
  if (text.characters.find(dotted_capital_i) == std::u32string::npos) return;
  aligned_text result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_dotted = text.characters[i] == dotted_capital_i;
    result.append(is_dotted ? U'i' : text.characters[i], text.origin[i]);
    if (is_dotted) result.append(dot_above, text.origin[i]);
  }
  text = std::move(result);
}

}  // namespace nullscope::detail

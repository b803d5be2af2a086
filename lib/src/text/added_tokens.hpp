/// Tokens that are found in the text as they stand, before it is split into words: special ones such as "[MASK]", and
/// those that were added to a trained tokenizer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "lib/src/text/text_model.hpp"

namespace nullscope::detail {

struct added_token {
  std::int32_t id = 0;
  std::string text;
  bool is_special = false;      ///< left out when tokens are decoded
  bool is_normalised = false;   ///< looked for in the normalised text, in its own normalised form
  bool is_single_word = false;  ///< only where no letter or digit adjoins
  bool takes_left_space = false;
  bool takes_right_space = false;
};

class added_tokens {
 public:
  added_tokens() = default;
  added_tokens(std::vector<added_token> tokens, const text_model& model);

  /// A part of a text: an added token, or what is between two.
  struct part {
    std::optional<std::int32_t> id;
    word_range range;
  };

  /// Cuts the text at the tokens that are looked for in it as given, or in it as normalised. At each place the longest
  /// token counts, and the first place goes first.
  std::vector<part> split_given(const aligned_text& text) const { return split(text.characters, given_); }
  std::vector<part> split_normalised(const aligned_text& text) const { return split(text.characters, normalised_); }

  bool is_special(std::int32_t id) const { return special_.contains(id); }

 private:
  struct pattern {
    std::u32string characters;
    added_token token;
  };
  struct pattern_list {
    std::vector<pattern> longest_first;
    std::u32string first_characters;  // of all patterns
  };

  static std::vector<part> split(std::u32string_view text, const pattern_list& patterns);

  pattern_list given_, normalised_;
  std::unordered_set<std::int32_t> special_;
};

}  // namespace nullscope::detail

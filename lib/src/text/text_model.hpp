/// What the kinds of tokenizers differ in: how text is normalised, cut into words, and words into tokens.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/src/text/unicode.hpp"

namespace nullscope::detail {

/// Tokens of one text, without special tokens around it.
struct token_list {
  std::vector<std::int32_t> ids;
  std::vector<text_range> offsets;
  std::vector<std::int32_t> words;
  std::int32_t next_word = 0;

  void append(std::int32_t id, text_range from) {
    ids.push_back(id);
    offsets.push_back(from);
    words.push_back(next_word);
  }
};

class text_model {
 public:
  virtual ~text_model() = default;

  /// The text in which words, and those added tokens that ask for it, are looked for.
  virtual aligned_text normalise(aligned_text text) const { return text; }

  /// Appends the tokens of a normalised text.
  virtual void tokenise(const aligned_text& text, token_list& tokens) const = 0;

  /// The text that tokens, as the vocabulary writes them, stand for.
  virtual std::string decode(std::span<const std::string_view> tokens) const = 0;
};

}  // namespace nullscope::detail

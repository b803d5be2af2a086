/// Byte-level byte-pair encoding, GPT-2's: a word starts as its bytes, and the pair of neighbours that was merged first
/// in training is merged again, until no pair is left that ever was.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/src/text/flat_map.hpp"
#include "lib/src/text/text_model.hpp"
#include "lib/src/text/vocabulary.hpp"

namespace nullscope::detail {

struct byte_bpe_options {
  bool prefix_space = false;                 ///< a text gets a space before it if it has none
  bool split_words = true;                   ///< GPT-2's pattern; otherwise the text is one word
  bool fuse_unknown = false;                 ///< neighbouring unknown bytes are one token
  std::optional<std::int32_t> unknown_id{};  ///< of bytes that are no token; without one they are left out
};

/// The two tokens, as ids, and the token that they become.
struct bpe_merge {
  std::int32_t left, right, merged;
};

class byte_bpe final : public text_model {
 public:
  /// Merges in the order of training.
  byte_bpe(const vocabulary& tokens, const std::vector<bpe_merge>& merges, byte_bpe_options options);

  void tokenise(const aligned_text& text, token_list& tokens) const override;
  std::string decode(std::span<const std::string_view> tokens) const override;

 private:
  struct symbol;
  struct candidate;
  struct ranked_merge {
    std::int32_t rank, merged;
  };

  const ranked_merge* find(std::int32_t left, std::int32_t right) const;
  void spell(const aligned_text& text, word_range word, std::vector<symbol>& symbols) const;
  void merge(std::vector<symbol>& symbols, std::vector<candidate>& queue) const;

  byte_bpe_options options_;
  std::array<std::optional<std::int32_t>, 256> byte_ids_;
  flat_map<ranked_merge> merges_;  // by both ids
};

/// The character that stands for a byte in the tokens of the vocabulary: printable ones for themselves, the others for
/// characters from U+0100 on.
char32_t character_of_byte(unsigned char byte);

}  // namespace nullscope::detail

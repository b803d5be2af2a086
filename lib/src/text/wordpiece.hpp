/// WordPiece: a word becomes the longest token that begins it, then the longest that continues it, and so on.
#pragma once

#include <cstdint>
#include <string>

#include "lib/src/text/bert_text.hpp"
#include "lib/src/text/longest_match.hpp"
#include "lib/src/text/text_model.hpp"
#include "lib/src/text/vocabulary.hpp"

namespace nullscope::detail {

struct wordpiece_options {
  bert_text_rules rules;
  std::int32_t unknown_id = 0;
  std::string continuation_prefix = "##";  ///< of tokens that do not begin a word
  std::int64_t longest_word = 100;         ///< in characters; longer ones are unknown
  bool clean_up_decoded = true;            ///< no space before a full stop and the like
};

class wordpiece final : public text_model {
 public:
  wordpiece(const vocabulary& tokens, wordpiece_options options);

  aligned_text normalise(aligned_text text) const override;
  void tokenise(const aligned_text& text, token_list& tokens) const override;
  std::string decode(std::span<const std::string_view> tokens) const override;

 private:
  struct piece {
    std::int32_t id;
    std::size_t begin, end;  // bytes of the word
  };
  bool split(std::string_view word, std::vector<piece>& pieces) const;

  wordpiece_options options_;
  longest_match beginnings_;
  longest_match continuations_;  // without the prefix
};

}  // namespace nullscope::detail

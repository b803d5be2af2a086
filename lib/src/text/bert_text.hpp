/// BERT's words: what WordPiece splits further, and what a word vocabulary counts.
#pragma once

#include <vector>

#include "lib/src/text/unicode.hpp"

namespace nullscope::detail {

struct bert_text_rules {
  bool clean_text = true;        ///< control characters and U+FFFD go, white space becomes spaces
  bool split_ideographs = true;  ///< each CJK ideograph is a word
  bool strip_accents = true;     ///< canonical decomposition without nonspacing marks
  bool lower_case = true;
};

aligned_text normalise(aligned_text text, const bert_text_rules& rules);

/// Words stand between white space; each punctuation character is one.
std::vector<word_range> split_words(const aligned_text& text);

}  // namespace nullscope::detail

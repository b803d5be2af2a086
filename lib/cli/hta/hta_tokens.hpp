/// Labels, classes and tags of the tokens of a text, or of its words, for the report of nullscope hta.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/cli/common/text_input.hpp"

namespace nullscope::cli {

struct hta_tokens {
  std::vector<std::string> labels;
  std::vector<std::string> classes;  ///< special tokens by name, "punctuation", "word", "word piece" (not the first)
  std::vector<std::string> tags;     ///< special tokens by name, others by the column of tags; empty without one
  std::int64_t separator = -1;       ///< the first special token after the first one, which ends the first text
};

hta_tokens describe_tokens(const input_text& text, const text_source& source);

/// One entry per word, as `aggregate_words` orders them: that of its first token. Labels are the words themselves.
hta_tokens describe_words(const input_text& text, const text_source& source);

/// The word of each token, for `aggregate_words`: words of both texts of a pair are different ones.
std::vector<std::int32_t> words_of(const input_text& text);

/// Throws file_error, naming the line, unless there is one tag for each word between white space.
void check_tags(const input_text& text);

}  // namespace nullscope::cli

/// What a tokenizer is made of, and how the files of a model folder give it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <nullscope/text/tokenizer.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lib/src/io/json_reader.hpp"
#include "lib/src/text/added_tokens.hpp"
#include "lib/src/text/byte_bpe.hpp"
#include "lib/src/text/text_model.hpp"
#include "lib/src/text/vocabulary.hpp"

namespace nullscope::detail {

/// One part of what the model reads: a text of those given, or a special token.
struct layout_item {
  enum class kind { text, second_text, special };

  kind what = kind::text;
  std::int32_t segment = 0;
  std::int32_t id = 0;  // of the special token
};

/// How the tokens of a text, or of a pair of texts, are put together.
struct special_layout {
  std::vector<layout_item> single{{layout_item::kind::text}};
  std::vector<layout_item> pair{{layout_item::kind::text}, {layout_item::kind::second_text, 1}};
  bool trims_spaces = false;       ///< offsets of tokens leave out spaces at their ends
  bool keeps_first_space = false;  ///< except a single one at the beginning of the text
};

/// cls A sep, and cls A sep B sep with B in segment 1: BERT's.
special_layout bert_layout(std::int32_t cls, std::int32_t sep);

/// cls A sep, and cls A sep sep B sep, all of it in segment 0: RoBERTa's and MPNet's.
special_layout roberta_layout(std::int32_t cls, std::int32_t sep);

struct tokenizer_parts {
  vocabulary tokens;
  std::unique_ptr<const text_model> model;
  added_tokens added;
  special_layout layout;
  special_token_ids special;
  std::optional<std::int64_t> model_max_length;
};

/// Options and roles beside the vocabulary: tokenizer_config.json, special_tokens_map.json, added_tokens.json and
/// config.json, where they are there.
struct tokenizer_settings {
  std::string kind;                          ///< class of the tokenizer, otherwise type of the model, in lower case
  std::map<std::string, added_token> roles;  ///< "cls", "sep", ... -> token, whose id is not known yet
  std::vector<added_token> added;
  std::optional<bool> lower_case, strip_accents, split_ideographs, prefix_space, adds_bos;
  std::optional<std::int64_t> model_max_length;
};

/// All three throw file_error.
tokenizer_settings read_tokenizer_settings(const std::filesystem::path& folder);
tokenizer_parts read_tokenizer_json(const std::filesystem::path& folder, const tokenizer_settings& settings);
tokenizer_parts read_vocabulary_files(const std::filesystem::path& folder, const tokenizer_settings& settings);

/// A token as JSON describes it: its text alone, or {"content": ..., "lstrip": ...}. Its id is left to the caller.
added_token read_added_token(const json_reader& token);

/// Gives roles to the tokens of the vocabulary that the settings name, or that are called as usual.
special_token_ids find_special_ids(const vocabulary& tokens, const tokenizer_settings& settings);

/// The id as a token may have it. Throws file_error.
std::int32_t checked_id(const std::filesystem::path& path, std::string_view token, std::int64_t id);

/// The pairs of merges.txt, or of "merges" in tokenizer.json, as ids. Throws file_error if one of their tokens, or what
/// they become, is not in the vocabulary.
class merge_list {
 public:
  merge_list(const std::filesystem::path& path, const vocabulary& tokens) : path_(path), tokens_(tokens) {}
  void add(std::string_view left, std::string_view right);
  void add(std::string_view both);  // with a space between them
  const std::vector<bpe_merge>& merges() const { return merges_; }

 private:
  const std::filesystem::path& path_;
  const vocabulary& tokens_;
  std::vector<bpe_merge> merges_;
};

}  // namespace nullscope::detail

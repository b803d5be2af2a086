/// Text to ids for any model folder, whatever stands behind it: a Hugging Face tokenizer, or the word vocabulary of a
/// classifier that was trained here.
///
///   const text_encoder encoder(resolve_model("minilm"));
///   const encoded_text input = encoder.encode("Not bad.", {.max_length = description.config.positions});
///
/// Host code that needs no SYCL.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nullscope/text/tokenizer.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace nullscope {

/// Immutable, cheap to copy, and safe to use from many threads at once.
class text_encoder {
 public:
  /// Reads what `save` wrote, or the tokenizer files of another model folder. Throws file_error as `tokenizer` and
  /// `word_vocabulary::load` do.
  explicit text_encoder(const std::filesystem::path& folder);

  explicit text_encoder(word_vocabulary words);

  /// Throws invalid_argument if max_length has no room for the special tokens, or on a pair that the model reads as two
  /// texts (see joins_pairs).
  encoded_text encode(std::string_view text, const encode_options& options = {}) const;

  /// Whether a pair becomes one sequence. A word vocabulary does not join: its models read two sequences.
  bool joins_pairs() const;

  /// The text that the ids stand for, without special tokens. Throws invalid_argument on an id out of range.
  std::string decode(std::span<const std::int32_t> ids) const;

  /// The token as the vocabulary writes it ("##ing", "Ġthe"). Throws invalid_argument on an id that no token has.
  std::string_view token(std::int32_t id) const;

  /// The tokens with a role of their own, where there are any.
  special_token_ids special_ids() const;

  /// What a model reads when no token of a text is left: the begin-of-text token, otherwise end-of-text or [CLS].
  std::optional<std::int32_t> empty_id() const;

  /// What stands for an absent token in a baseline: padding, otherwise [MASK], the unknown token or the end of text.
  std::optional<std::int32_t> baseline_id() const;

  /// Special tokens that `encode` adds to a text, or to a pair.
  std::int64_t special_token_count(bool is_pair = false) const;

  /// One more than the highest id.
  std::int64_t vocabulary_size() const;

  /// Writes the files that the constructor reads into a model folder. Each file is whole or what it was before. Throws
  /// file_error.
  void save(const std::filesystem::path& folder) const;

 private:
  std::variant<tokenizer, word_vocabulary> source_;
  std::filesystem::path folder_;  // of the tokenizer's files
};

// Which class each token of a text has: the model's own start and separator tokens, periods and commas, and the rest;
// or whatever a file says.

/// The default classes. Their names are the model's own spelling of its start and separator tokens ("[CLS]", "[SEP]"),
/// "periods and commas", and "other". A model without start or separator tokens has fewer classes; one that uses the
/// same token for both has one class for it.
class token_classifier {
 public:
  /// The encoder must outlive this.
  explicit token_classifier(const text_encoder& encoder);

  const std::vector<std::string>& names() const { return names_; }

  /// The class of each token, a number below names().size().
  std::vector<std::int32_t> classify(const std::vector<std::int32_t>& ids) const;

  /// The class of separators, if the model has them: what fig. 5 of Brunner et al. looks at.
  std::optional<std::int32_t> separator() const { return separator_; }

 private:
  const text_encoder& encoder_;
  std::vector<std::string> names_;
  std::vector<std::int32_t> ids_;  // of the first classes, one token each
  std::optional<std::int32_t> separator_;
};

/// Classes from a file: line i has the names of the classes of the tokens of text i, special tokens included, separated
/// by blanks or tabs. Names are numbered in the order in which they appear.
class token_class_file {
 public:
  /// Throws file_error if the file cannot be read, or has no names.
  explicit token_class_file(const std::filesystem::path& file);

  const std::vector<std::string>& names() const { return names_; }

  /// The classes of text number `text`, from 0. Throws file_error, with the line, if there are not `tokens` of them.
  const std::vector<std::int32_t>& classes(std::int64_t text, std::int64_t tokens) const;

  /// Throws file_error if there are classes for a text that is not there.
  void check_texts(std::int64_t texts) const;

 private:
  std::filesystem::path file_;
  std::vector<std::string> names_;
  std::vector<std::vector<std::int32_t>> lines_;
};

}  // namespace nullscope

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
#include <nullscope/encoded_text.hpp>
#include <nullscope/tokenizer.hpp>
#include <nullscope/word_vocabulary.hpp>
#include <span>
#include <string>
#include <string_view>
#include <variant>

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

}  // namespace nullscope

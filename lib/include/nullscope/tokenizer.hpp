/// Tokenizers of Hugging Face model folders: WordPiece (BERT, DistilBERT, MPNet; uncased and cased) and byte-level BPE
/// (GPT-2).
///
///   const tokenizer words("models/minilm-0.1.0");
///   const encoded_text input = words.encode("Attention is not explanation.", {.max_length = 128});
///   // input.ids: 101 3086 2003 2025 7526 1012 102
///
/// The result is, token for token, what the `tokenizers` and `transformers` packages give. Text is UTF-8; bytes that
/// are not are read as U+FFFD, as Python's bytes.decode(errors="replace") does. Host code that needs no SYCL.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nullscope/encoded_text.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace nullscope {

/// The ids of the tokens with a role of their own, where the tokenizer has them. Some may be equal: GPT-2 uses one
/// token for bos, eos and unk.
struct special_token_ids {
  std::optional<std::int32_t> cls, sep, pad, unk, mask, bos, eos;
};

/// Immutable, cheap to copy, and safe to use from many threads at once.
class tokenizer {
 public:
  /// Reads tokenizer.json; without one, vocab.txt (WordPiece), or vocab.json and merges.txt (byte-level BPE). Takes
  /// roles and options from tokenizer_config.json, special_tokens_map.json, added_tokens.json and config.json where
  /// these are there. Throws file_error, which names the file, if nothing fits, a file is malformed, or the tokenizer
  /// is of another kind.
  explicit tokenizer(const std::filesystem::path& folder);

  /// A special token that stands in the text, such as "[MASK]", becomes that token. Time is linear in the text for
  /// WordPiece, n log n in its longest word for BPE. Throws invalid_argument if max_length has no room for the special
  /// tokens, or is not positive.
  encoded_text encode(std::string_view text, const encode_options& options = {}) const;

  /// The text that the tokens stand for, as the model's own decoder writes it: WordPiece does not know where spaces and
  /// capitals were; bytes that are not UTF-8 come out as U+FFFD. Throws invalid_argument on an id that no token has.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special_tokens = true) const;

  /// The token as the vocabulary writes it ("##ing", "Ġthe"); valid while a copy of this tokenizer lives. Throws
  /// invalid_argument on an id that no token has.
  std::string_view token(std::int32_t id) const;

  /// The id of a token as the vocabulary writes it, if there is one.
  std::optional<std::int32_t> id(std::string_view token) const;

  /// Whether a token of that id is special: left out by `decode`, found as a whole in the text by `encode`.
  bool is_special(std::int32_t id) const;

  const special_token_ids& special_ids() const;

  /// Special tokens that `encode` adds to a text, or to a pair.
  std::int64_t special_token_count(bool is_pair = false) const;

  /// One more than the highest id.
  std::int64_t vocabulary_size() const;

  /// The most tokens that the model takes, according to tokenizer_config.json.
  std::optional<std::int64_t> model_max_length() const;

 private:
  struct parts;
  std::shared_ptr<const parts> parts_;
};

}  // namespace nullscope

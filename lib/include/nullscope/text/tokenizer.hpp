/// What a tokenizer or a word vocabulary makes of a text. Host code that needs no SYCL.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nullscope {

/// A piece of a text, in bytes: begin is the first, end is one past the last.
struct text_range {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  bool operator==(const text_range&) const = default;
};

struct encode_options {
  /// A second text, for models that read two.
  std::optional<std::string_view> pair = std::nullopt;

  /// The most tokens that may come out, special tokens included; the rest of the text is cut off at its end. Of a pair,
  /// the longer text is shortened until both are equally long, then both are. Default: no limit.
  std::optional<std::int64_t> max_length = std::nullopt;

  /// Whether the tokens come that the model expects around the text, such as [CLS] and [SEP].
  bool add_special_tokens = true;
};

/// Tokens in the order in which the model reads them. All vectors are equally long.
struct encoded_text {
  std::vector<std::int32_t> ids;

  /// 0, or 1 for the second text of a pair where the model tells the two apart.
  std::vector<std::int32_t> segments;

  /// The bytes of the given text that a token stands for; 0 to 0 for special tokens that were added. A character that
  /// is split into several tokens belongs to each of them as a whole.
  std::vector<text_range> offsets;

  /// The word within its text that a token belongs to, counted from 0; -1 for special tokens that were added.
  std::vector<std::int32_t> words;

  /// The text that `offsets` and `words` refer to: 0, 1 for the second text of a pair, -1 for special tokens that were
  /// added.
  std::vector<std::int32_t> sources;

  /// 1 for special tokens that were added, otherwise 0. One that stands in the text itself, such as "[MASK]", has 0.
  std::vector<std::uint8_t> special_mask;

  /// Whether max_length cut something off.
  bool truncated = false;
};

// Tokenizers of Hugging Face model folders: WordPiece (BERT, DistilBERT, MPNet; uncased and cased) and byte-level BPE
// (GPT-2).
//
//   const tokenizer words("models/minilm-0.1.0");
//   const encoded_text input = words.encode("Attention is not explanation.", {.max_length = 128});
//   // input.ids: 101 3086 2003 2025 7526 1012 102
//
// The result is, token for token, what the `tokenizers` and `transformers` packages give. Text is UTF-8; bytes that
// are not are read as U+FFFD, as Python's bytes.decode(errors="replace") does. Host code that needs no SYCL.

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

// The 1-gram vocabulary of a classifier that is trained from scratch: whole words, counted in the texts it learns
// from.
//
//   word_counter counter;
//   for (const std::string& review : reviews) counter.add(review);
//   const word_vocabulary words = counter.vocabulary({.minimum_count = 2});
//   words.save("model");                                     // model/vocab.txt
//   const encoded_text input = words.encode("Not bad at all!", {.max_length = 256});
//
// Words are in lower case and without accents; they stand between white space, and each punctuation character and CJK
// ideograph is a word of its own, as in BERT's uncased models. Text is UTF-8, read as <nullscope/text/tokenizer.hpp>
// says. Host code that needs no SYCL.

/// Immutable, cheap to copy, and safe to use from many threads at once.
class word_vocabulary {
 public:
  static constexpr std::int32_t pad_id = 0;      ///< [PAD]
  static constexpr std::int32_t unknown_id = 1;  ///< [UNK], for words that are not in the vocabulary
  static constexpr std::int32_t class_id = 2;    ///< [CLS], the token that a classifier reads

  /// The words in the order of their ids, the three above not among them. Throws invalid_argument if a word is empty,
  /// occurs twice, or is not as `encode` would look for it.
  explicit word_vocabulary(const std::vector<std::string>& words);

  /// Reads what `save` wrote. Throws file_error with the line that is wrong.
  static word_vocabulary load(const std::filesystem::path& folder);

  /// Writes vocab.txt into the folder: one word per line, the line number from 0 being its id. The file is whole or
  /// what it was before. Throws file_error.
  void save(const std::filesystem::path& folder) const;

  /// [CLS], then the words; [CLS] is left out without add_special_tokens. Segments are 0. Throws invalid_argument if
  /// max_length is not positive, or if there is a pair: such models read two texts one by one.
  encoded_text encode(std::string_view text, const encode_options& options = {}) const;

  /// The words with a space between them, without [PAD] and [CLS]. Throws invalid_argument on an id out of range.
  std::string decode(std::span<const std::int32_t> ids) const;

  /// Throws invalid_argument on an id out of range.
  std::string_view word(std::int32_t id) const;

  /// The id of a word that is in lower case already.
  std::optional<std::int32_t> id(std::string_view word) const;

  /// With the three special tokens.
  std::int64_t size() const;

 private:
  struct contents;
  explicit word_vocabulary(std::shared_ptr<const contents> made);

  std::shared_ptr<const contents> contents_;
};

struct word_vocabulary_options {
  std::int64_t minimum_count = 1;                           ///< words that occur less often are unknown
  std::optional<std::int64_t> maximum_size = std::nullopt;  ///< the three special tokens included; default: no limit
};

/// Counts the words of many texts.
class word_counter {
 public:
  word_counter();
  ~word_counter();
  word_counter(word_counter&&) noexcept;
  word_counter& operator=(word_counter&&) noexcept;

  void add(std::string_view text);

  /// The most frequent words first, equally frequent ones in the order of their bytes: whatever the order of the texts.
  /// Throws invalid_argument if the options have no room for the three special tokens, or a count below 1.
  word_vocabulary vocabulary(const word_vocabulary_options& options = {}) const;

 private:
  struct counts;
  std::unique_ptr<counts> counts_;
};

}  // namespace nullscope

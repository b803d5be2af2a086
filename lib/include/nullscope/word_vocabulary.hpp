/// The 1-gram vocabulary of a classifier that is trained from scratch: whole words, counted in the texts it learns
/// from.
///
///   word_counter counter;
///   for (const std::string& review : reviews) counter.add(review);
///   const word_vocabulary words = counter.vocabulary({.minimum_count = 2});
///   words.save("model");                                     // model/vocab.txt
///   const encoded_text input = words.encode("Not bad at all!", {.max_length = 256});
///
/// Words are in lower case and without accents; they stand between white space, and each punctuation character and CJK
/// ideograph is a word of its own, as in BERT's uncased models. Text is UTF-8, read as <nullscope/tokenizer.hpp> says.
/// Host code that needs no SYCL.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nullscope/encoded_text.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nullscope {

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

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nullscope/core/errors.hpp>
#include <nullscope/text/tokenizer.hpp>
#include <unordered_map>
#include <utility>
#include "lib/src/io/atomic_file.hpp"

#include "lib/src/io/safetensors_format.hpp"
#include "lib/src/io/text_files.hpp"
#include "lib/src/text/bert_text.hpp"
#include "lib/src/text/vocabulary.hpp"

namespace nullscope {

struct word_vocabulary::contents {
  detail::vocabulary words;
};

struct word_counter::counts {
  std::unordered_map<std::string, std::int64_t, detail::string_hash, std::equal_to<>> of_word;
};

namespace {

constexpr std::array<std::string_view, 3> special_words{"[PAD]", "[UNK]", "[CLS]"};
constexpr const char* file_name = "vocab.txt";

/// Calls use(word, range in the text) for each word of the text.
template <class Use>
void for_each_word(std::string_view text, Use use) {
  const detail::aligned_text characters = detail::normalise(detail::decode_utf8(text), {});
  std::string word;
  for (const auto [begin, end] : detail::split_words(characters)) {
    word.clear();
    for (std::size_t i = begin; i < end; ++i) detail::append_utf8(word, characters.characters[i]);
    use(word, text_range{characters.origin[begin].begin, characters.origin[end - 1].end});
  }
}

/// What is wrong with a word, or nothing.
std::string fault(const std::string& word, const detail::vocabulary& known) {
  if (known.find(word)) return "occurs twice";
  std::vector<std::string> found;
  for_each_word(word, [&](const std::string& part, text_range) { found.push_back(part); });
  return found == std::vector{word} ? "" : "is not one word in lower case";
}

/// The special words and these. Calls refuse(place in `words`, reason) if one cannot be in a vocabulary.
template <class Words, class Refuse>
detail::vocabulary make_vocabulary(const Words& words, Refuse refuse) {
  detail::vocabulary made;
  const auto add = [&](std::string_view word) { made.add(std::string(word), static_cast<std::int32_t>(made.size())); };
  for (const std::string_view word : special_words) add(word);
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (const std::string reason = fault(std::string(words[i]), made); !reason.empty()) refuse(i, reason);
    add(words[i]);
  }
  return made;
}

}  // namespace

word_vocabulary::word_vocabulary(std::shared_ptr<const contents> made) : contents_(std::move(made)) {}

word_vocabulary::word_vocabulary(const std::vector<std::string>& words) {
  const auto refuse = [&](std::size_t place, const std::string& reason) {
    throw invalid_argument(
        fmt::format("word_vocabulary: words[{}], {}, {}", place, detail::in_quotes(words[place]), reason));
  };
  contents_ = std::make_shared<contents>(contents{make_vocabulary(words, refuse)});
}

word_vocabulary word_vocabulary::load(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / file_name;
  const std::string text = detail::read_file(path);
  const std::vector<std::string_view> lines = detail::lines_of(text);
  for (std::size_t i = 0; i < special_words.size(); ++i) {
    if (i >= lines.size() || lines[i] != special_words[i]) {
      throw file_error(fmt::format("{}: line {} is {}, expected {}", path.string(), i + 1,
                                   i < lines.size() ? detail::in_quotes(lines[i]) : "missing", special_words[i]));
    }
  }
  const std::span words = std::span(lines).subspan(special_words.size());
  const auto refuse = [&](std::size_t place, const std::string& reason) {
    throw file_error(fmt::format("{}: line {}: {} {}", path.string(), special_words.size() + place + 1,
                                 detail::in_quotes(words[place]), reason));
  };
  return word_vocabulary(std::make_shared<contents>(contents{make_vocabulary(words, refuse)}));
}

void word_vocabulary::save(const std::filesystem::path& folder) const {
  std::string text;
  for (std::int64_t id = 0; id < size(); ++id) text.append(word(static_cast<std::int32_t>(id))).push_back('\n');
  write_atomically(folder / file_name, text);
}

encoded_text word_vocabulary::encode(std::string_view text, const encode_options& options) const {
  if (options.pair) throw invalid_argument("word_vocabulary: a pair, expected one text at a time");
  if (options.max_length && *options.max_length < 1) {
    throw invalid_argument(fmt::format("word_vocabulary: max_length {}, expected at least 1", *options.max_length));
  }
  encoded_text encoded;
  if (options.add_special_tokens) {
    encoded.ids.push_back(class_id);
    encoded.offsets.push_back({});
    encoded.words.push_back(-1);
  }
  std::int32_t word_index = 0;
  for_each_word(text, [&](const std::string& word, text_range range) {
    if (options.max_length && std::ssize(encoded.ids) == *options.max_length) {
      encoded.truncated = true;
      return;
    }
    encoded.ids.push_back(id(word).value_or(unknown_id));
    encoded.offsets.push_back(range);
    encoded.words.push_back(word_index++);
  });
  const std::size_t count = encoded.ids.size(), special_count = options.add_special_tokens ? 1 : 0;
  encoded.segments.assign(count, 0);
  encoded.sources.assign(count, 0);
  std::fill_n(encoded.sources.begin(), special_count, -1);
  encoded.special_mask.assign(count, 0);
  std::fill_n(encoded.special_mask.begin(), special_count, std::uint8_t{1});
  return encoded;
}

std::string word_vocabulary::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  for (const std::int32_t id : ids) {
    const std::string_view next = word(id);
    if (id == pad_id || id == class_id) continue;
    if (!text.empty()) text.push_back(' ');
    text.append(next);
  }
  return text;
}

std::string_view word_vocabulary::word(std::int32_t id) const {
  if (const auto text = contents_->words.text(id)) return *text;
  throw invalid_argument(fmt::format("word_vocabulary: id {}, expected 0 to {}", id, size() - 1));
}

std::optional<std::int32_t> word_vocabulary::id(std::string_view word) const { return contents_->words.find(word); }

std::int64_t word_vocabulary::size() const { return contents_->words.size(); }

word_counter::word_counter() : counts_(std::make_unique<counts>()) {}
word_counter::~word_counter() = default;
word_counter::word_counter(word_counter&&) noexcept = default;
word_counter& word_counter::operator=(word_counter&&) noexcept = default;

void word_counter::add(std::string_view text) {
  for_each_word(text, [&](const std::string& word, text_range) { ++counts_->of_word[word]; });
}

word_vocabulary word_counter::vocabulary(const word_vocabulary_options& options) const {
  const std::int64_t special_count = std::ssize(special_words);
  if (options.minimum_count < 1) {
    throw invalid_argument(fmt::format("word_counter: minimum_count {}, expected at least 1", options.minimum_count));
  }
  if (options.maximum_size && *options.maximum_size < special_count) {
    throw invalid_argument(
        fmt::format("word_counter: maximum_size {}, expected at least {}", *options.maximum_size, special_count));
  }
  std::vector<std::pair<std::string_view, std::int64_t>> frequent;
  for (const auto& [word, count] : counts_->of_word) {
    if (count >= options.minimum_count) frequent.emplace_back(word, count);
  }
  std::ranges::sort(frequent, [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  const std::int64_t limit = options.maximum_size ? *options.maximum_size - special_count : std::ssize(frequent);
  frequent.resize(static_cast<std::size_t>(std::min(limit, std::ssize(frequent))));
  std::vector<std::string> words;
  for (const auto& [word, count] : frequent) words.emplace_back(word);
  return word_vocabulary(words);
}

}  // namespace nullscope

#include <array>
#include <nlohmann/json.hpp>
#include <nullscope/core/errors.hpp>
#include <nullscope/text/text_encoder.hpp>
#include <utility>
#include "lib/src/io/atomic_file.hpp"

#include "lib/src/io/json_reader.hpp"

namespace nullscope {
namespace {

namespace fs = std::filesystem;

constexpr const char* settings_file = "tokenizer_config.json";
constexpr const char* word_class = "NullscopeWords";  // tokenizer_class of a folder with a word vocabulary
constexpr std::array tokenizer_files{"tokenizer.json",    settings_file, "special_tokens_map.json",
                                     "added_tokens.json", "vocab.txt",   "vocab.json",
                                     "merges.txt"};

bool has_words(const fs::path& folder) {
  const fs::path path = folder / settings_file;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return false;
  return detail::read_json(path, [](const detail::json_reader& settings) {
    return settings.is_object() && settings.member("tokenizer_class").json() == word_class;
  });
}

/// The first of these roles that there is a token for.
std::optional<std::int32_t> first_of(std::initializer_list<std::optional<std::int32_t>> roles) {
  for (const std::optional<std::int32_t>& id : roles) {
    if (id) return id;
  }
  return std::nullopt;
}

}  // namespace

text_encoder::text_encoder(const fs::path& folder)
    : source_(has_words(folder) ? decltype(source_)(word_vocabulary::load(folder)) : tokenizer(folder)),
      folder_(folder) {}

text_encoder::text_encoder(word_vocabulary words) : source_(std::move(words)) {}

encoded_text text_encoder::encode(std::string_view text, const encode_options& options) const {
  return std::visit([&](const auto& source) { return source.encode(text, options); }, source_);
}

bool text_encoder::joins_pairs() const { return std::holds_alternative<tokenizer>(source_); }

std::string text_encoder::decode(std::span<const std::int32_t> ids) const {
  return std::visit([&](const auto& source) { return source.decode(ids); }, source_);
}

std::string_view text_encoder::token(std::int32_t id) const {
  const auto* words = std::get_if<word_vocabulary>(&source_);
  return words ? words->word(id) : std::get<tokenizer>(source_).token(id);
}

special_token_ids text_encoder::special_ids() const {
  if (const auto* pieces = std::get_if<tokenizer>(&source_)) return pieces->special_ids();
  special_token_ids ids;
  ids.cls = word_vocabulary::class_id;
  ids.pad = word_vocabulary::pad_id;
  ids.unk = word_vocabulary::unknown_id;
  return ids;
}

std::optional<std::int32_t> text_encoder::empty_id() const {
  const special_token_ids ids = special_ids();
  return first_of({ids.bos, ids.eos, ids.cls});
}

std::optional<std::int32_t> text_encoder::baseline_id() const {
  const special_token_ids ids = special_ids();
  return first_of({ids.pad, ids.mask, ids.unk, ids.eos});
}

std::int64_t text_encoder::special_token_count(bool is_pair) const {
  const auto* pieces = std::get_if<tokenizer>(&source_);
  return pieces ? pieces->special_token_count(is_pair) : 1;
}

std::int64_t text_encoder::vocabulary_size() const {
  const auto* words = std::get_if<word_vocabulary>(&source_);
  return words ? words->size() : std::get<tokenizer>(source_).vocabulary_size();
}

void text_encoder::save(const fs::path& folder) const {
  if (const auto* words = std::get_if<word_vocabulary>(&source_)) {
    words->save(folder);
    write_atomically(folder / settings_file, nlohmann::json{{"tokenizer_class", word_class}}.dump(2) + "\n");
    return;
  }
  std::error_code ignored;
  if (fs::equivalent(folder, folder_, ignored)) return;
  for (const char* name : tokenizer_files) {
    if (fs::exists(folder_ / name, ignored)) write_atomically(folder / name, detail::read_file(folder_ / name));
  }
}

}  // namespace nullscope

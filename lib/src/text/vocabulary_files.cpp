/// Reads the vocabulary files that came before tokenizer.json: vocab.txt, or vocab.json and merges.txt.
#include <fmt/format.h>

#include <memory>
#include <utility>

#include "lib/src/io/safetensors_format.hpp"
#include "lib/src/io/text_files.hpp"
#include "lib/src/text/tokenizer_parts.hpp"
#include "lib/src/text/wordpiece.hpp"

namespace nullscope::detail {

namespace {

std::int32_t required(const std::filesystem::path& path, const vocabulary& tokens, const std::string& token) {
  if (const auto id = tokens.find(token)) return *id;
  throw file_error(fmt::format("{}: no token {}, which the model needs", path.string(), in_quotes(token)));
}

/// The tokens of the settings, and those that have a role, are found in the text as they stand.
void add_tokens(tokenizer_parts& parts, const tokenizer_settings& settings) {
  std::vector<added_token> added = settings.added;
  for (const added_token& token : added) parts.tokens.add(token.text, token.id);
  for (const auto& [role, token] : settings.roles) {
    const auto same_text = [&token = token](const added_token& other) { return other.text == token.text; };
    const auto id = parts.tokens.find(token.text);
    if (!id || std::ranges::any_of(added, same_text)) continue;
    added.push_back(token);
    added.back().id = *id;
  }
  parts.added = added_tokens(std::move(added), *parts.model);
}

/// Tokens that the settings do not name get the names that models of the family use.
void name_roles(tokenizer_settings& settings, std::initializer_list<std::pair<const char*, const char*>> names) {
  for (const auto& [role, text] : names) {
    added_token token;
    token.text = text;
    token.is_special = true;
    settings.roles.try_emplace(role, std::move(token));
  }
}

tokenizer_parts read_wordpiece(const std::filesystem::path& path, tokenizer_settings settings) {
  tokenizer_parts parts;
  const std::string text = read_file(path);
  std::int64_t line_number = 0;
  for (const std::string_view line : lines_of(text))
    parts.tokens.add(std::string(line), checked_id(path, line, line_number++));
  const bool is_mpnet = settings.kind.starts_with("mpnet") || (!parts.tokens.find("[CLS]") && parts.tokens.find("<s>"));
  if (is_mpnet) {
    name_roles(settings, {{"cls", "<s>"},
                          {"sep", "</s>"},
                          {"pad", "<pad>"},
                          {"unk", "[UNK]"},
                          {"mask", "<mask>"},
                          {"bos", "<s>"},
                          {"eos", "</s>"}});
    settings.roles.at("mask").takes_left_space = true;
  } else {
    name_roles(settings, {{"cls", "[CLS]"}, {"sep", "[SEP]"}, {"pad", "[PAD]"}, {"unk", "[UNK]"}, {"mask", "[MASK]"}});
  }
  wordpiece_options options;
  options.rules.lower_case = settings.lower_case.value_or(true);
  options.rules.strip_accents = settings.strip_accents.value_or(options.rules.lower_case);
  options.rules.split_ideographs = settings.split_ideographs.value_or(true);
  options.unknown_id = required(path, parts.tokens, settings.roles.at("unk").text);
  parts.model = std::make_unique<wordpiece>(parts.tokens, options);
  add_tokens(parts, settings);
  const std::int32_t cls = required(path, parts.tokens, settings.roles.at("cls").text);
  const std::int32_t sep = required(path, parts.tokens, settings.roles.at("sep").text);
  parts.layout = is_mpnet ? roberta_layout(cls, sep) : bert_layout(cls, sep);
  parts.special = find_special_ids(parts.tokens, settings);
  return parts;
}

tokenizer_parts read_byte_bpe(const std::filesystem::path& vocabulary_path, const std::filesystem::path& merges_path,
                              tokenizer_settings settings) {
  tokenizer_parts parts;
  read_json(vocabulary_path, [&](const json_reader& file) {
    for (const auto& [token, id] : file.members()) {
      parts.tokens.add(token, checked_id(vocabulary_path, token, id.integer()));
    }
  });
  merge_list merges(merges_path, parts.tokens);
  const std::string text = read_file(merges_path);
  for (const std::string_view line : lines_of(text)) {
    if (!line.empty() && !line.starts_with("#version")) merges.add(line);
  }
  name_roles(settings, {{"bos", "<|endoftext|>"}, {"eos", "<|endoftext|>"}, {"unk", "<|endoftext|>"}});
  byte_bpe_options options;
  options.prefix_space = settings.prefix_space.value_or(false);
  parts.model = std::make_unique<byte_bpe>(parts.tokens, merges.merges(), options);
  add_tokens(parts, settings);
  parts.special = find_special_ids(parts.tokens, settings);
  if (settings.adds_bos.value_or(false)) {
    using enum layout_item::kind;
    const std::int32_t bos = required(vocabulary_path, parts.tokens, settings.roles.at("bos").text);
    parts.layout.single = {{special, 0, bos}, {text}};
    parts.layout.pair = {{special, 0, bos}, {text}, {special, 1, bos}, {second_text, 1}};
  }
  return parts;
}

}  // namespace

void merge_list::add(std::string_view left, std::string_view right) {
  const auto id_of = [&](const std::string& token) {
    if (const auto id = tokens_.find(token)) return *id;
    throw file_error(fmt::format("{}: merge {} of {} and {}: {} is not in the vocabulary", path_.string(),
                                 merges_.size() + 1, in_quotes(left), in_quotes(right), in_quotes(token)));
  };
  const std::string first(left), second(right);
  merges_.push_back({id_of(first), id_of(second), id_of(first + second)});
}

void merge_list::add(std::string_view both) {
  const std::size_t space = both.find(' ');
  if (space == std::string_view::npos || both.find(' ', space + 1) != std::string_view::npos) {
    throw file_error(fmt::format("{}: merge {} is {}, expected two tokens with a space between them", path_.string(),
                                 merges_.size() + 1, in_quotes(both)));
  }
  add(both.substr(0, space), both.substr(space + 1));
}

tokenizer_parts read_vocabulary_files(const std::filesystem::path& folder, const tokenizer_settings& settings) {
  const std::filesystem::path words = folder / "vocab.txt", table = folder / "vocab.json",
                              merges = folder / "merges.txt";
  if (std::filesystem::exists(words)) return read_wordpiece(words, settings);
  if (std::filesystem::exists(table) && std::filesystem::exists(merges)) return read_byte_bpe(table, merges, settings);
  throw file_error(fmt::format(
      "{}: no tokenizer: neither tokenizer.json, nor vocab.txt, nor vocab.json with merges.txt", folder.string()));
}

}  // namespace nullscope::detail

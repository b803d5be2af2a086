#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "lib/src/io/safetensors_format.hpp"
#include "lib/src/io/text_files.hpp"
#include "lib/src/text/tokenizer_parts.hpp"

namespace nullscope::detail {

namespace {

constexpr std::array<const char*, 7> role_names{"cls", "sep", "pad", "unk", "mask", "bos", "eos"};

/// A flag that may be missing or null.
std::optional<bool> flag(const json_reader& object, const char* name) {
  const json_reader found = object.member(name);
  return found.is_null() ? std::nullopt : std::optional(found.boolean());
}

void read_roles(const json_reader& object, tokenizer_settings& settings) {
  for (const char* role : role_names) {
    const json_reader found = object.member(fmt::format("{}_token", role));
    if (found.is_null()) continue;
    added_token token = read_added_token(found);
    token.is_special = true;
    token.is_normalised = false;
    settings.roles.insert_or_assign(role, std::move(token));
  }
}

std::string in_lower_case(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

void read_tokenizer_config(const std::filesystem::path& path, const json_reader& config, tokenizer_settings& settings) {
  if (const json_reader kind = config.member("tokenizer_class"); kind.is_string()) {
    settings.kind = in_lower_case(kind.string());
  }
  read_roles(config, settings);
  settings.lower_case = flag(config, "do_lower_case");
  settings.strip_accents = flag(config, "strip_accents");
  settings.split_ideographs = flag(config, "tokenize_chinese_chars");
  settings.prefix_space = flag(config, "add_prefix_space");
  settings.adds_bos = flag(config, "add_bos_token");
  if (const json_reader most = config.member("model_max_length"); most.is_number()) {
    const double length = most.number();  // 1e30 says that there is no limit
    if (length >= 1 && length < 1e9) settings.model_max_length = static_cast<std::int64_t>(length);
  }
  if (const json_reader added = config.member("added_tokens_decoder"); !added.is_null()) {
    for (const auto& [id, token] : added.members()) {
      settings.added.push_back(read_added_token(token));
      const bool is_number =
          !id.empty() && id.size() < 10 && std::ranges::all_of(id, [](char c) { return c >= '0' && c <= '9'; });
      if (!is_number)
        throw file_error(fmt::format("{}: added_tokens_decoder: {} is not an id", path.string(), in_quotes(id)));
      settings.added.back().id = checked_id(path, settings.added.back().text, std::stoll(id));
    }
  }
}

}  // namespace

added_token read_added_token(const json_reader& token) {
  added_token result;
  result.is_special = true;
  if (token.is_string()) {
    result.text = token.string();
    return result;
  }
  result.text = token.at("content").string();
  result.is_special = token.boolean_or("special", true);
  result.is_normalised = token.boolean_or("normalized", false);
  result.is_single_word = token.boolean_or("single_word", false);
  result.takes_left_space = token.boolean_or("lstrip", false);
  result.takes_right_space = token.boolean_or("rstrip", false);
  return result;
}

std::int32_t checked_id(const std::filesystem::path& path, std::string_view token, std::int64_t id) {
  constexpr std::int64_t id_limit = 1 << 24;  // far beyond any vocabulary: a wrong id must not take all memory
  if (id < 0 || id >= id_limit) {
    throw file_error(
        fmt::format("{}: token {} has the id {}, expected 0 to {}", path.string(), in_quotes(token), id, id_limit - 1));
  }
  return static_cast<std::int32_t>(id);
}

tokenizer_settings read_tokenizer_settings(const std::filesystem::path& folder) {
  tokenizer_settings settings;
  const auto read_if_there = [&](const char* name, auto read) {
    const std::filesystem::path path = folder / name;
    if (std::filesystem::exists(path)) read_json(path, [&](const json_reader& content) { read(path, content); });
  };
  read_if_there("config.json", [&](const auto&, const json_reader& content) {
    settings.kind = in_lower_case(content.string_or("model_type", ""));
  });
  read_if_there("special_tokens_map.json",
                [&](const auto&, const json_reader& content) { read_roles(content, settings); });
  read_if_there("tokenizer_config.json",
                [&](const auto& path, const json_reader& content) { read_tokenizer_config(path, content, settings); });
  read_if_there("added_tokens.json", [&](const auto& path, const json_reader& content) {
    for (const auto& [text, id] : content.members()) {
      const auto same_text = [&text = text](const added_token& token) { return token.text == text; };
      if (std::ranges::any_of(settings.added, same_text)) continue;
      added_token token;
      token.text = text;
      token.id = checked_id(path, text, id.integer());
      token.is_normalised = true;
      settings.added.push_back(std::move(token));
    }
  });
  return settings;
}

special_token_ids find_special_ids(const vocabulary& tokens, const tokenizer_settings& settings) {
  const auto find = [&](const char* role, std::initializer_list<const char*> usual) -> std::optional<std::int32_t> {
    if (const auto found = settings.roles.find(role); found != settings.roles.end()) {
      return tokens.find(found->second.text);
    }
    for (const char* token : usual) {
      if (const auto id = tokens.find(token)) return id;
    }
    return std::nullopt;
  };
  special_token_ids ids;
  ids.cls = find("cls", {"[CLS]", "<s>"});
  ids.sep = find("sep", {"[SEP]", "</s>"});
  ids.pad = find("pad", {"[PAD]", "<pad>"});
  ids.unk = find("unk", {"[UNK]", "<|endoftext|>", "<unk>"});
  ids.mask = find("mask", {"[MASK]", "<mask>"});
  ids.bos = find("bos", {"<|endoftext|>", "<s>"});
  ids.eos = find("eos", {"<|endoftext|>", "</s>"});
  return ids;
}

special_layout bert_layout(std::int32_t cls, std::int32_t sep) {
  using enum layout_item::kind;
  special_layout layout;
  layout.single = {{special, 0, cls}, {text}, {special, 0, sep}};
  layout.pair = {{special, 0, cls}, {text}, {special, 0, sep}, {second_text, 1}, {special, 1, sep}};
  return layout;
}

special_layout roberta_layout(std::int32_t cls, std::int32_t sep) {
  using enum layout_item::kind;
  special_layout layout;
  layout.single = {{special, 0, cls}, {text}, {special, 0, sep}};
  layout.pair = {{special, 0, cls}, {text}, {special, 0, sep}, {special, 0, sep}, {second_text}, {special, 0, sep}};
  layout.trims_spaces = true;
  return layout;
}

}  // namespace nullscope::detail

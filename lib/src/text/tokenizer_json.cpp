/// Reads tokenizer.json, in which a tokenizer describes itself.
#include <fmt/format.h>

#include <memory>
#include <utility>

#include "lib/src/io/safetensors_format.hpp"
#include "lib/src/io/text_files.hpp"
#include "lib/src/text/tokenizer_parts.hpp"
#include "lib/src/text/wordpiece.hpp"

namespace nullscope::detail {

namespace {

using json = nlohmann::json;

/// The member, or null.
const json& member(const json& object, const char* name) {
  static const json null;
  const auto found = object.find(name);
  return found == object.end() ? null : *found;
}

class tokenizer_json_reader {
 public:
  tokenizer_json_reader(const std::filesystem::path& path, const json& file) : path_(path), file_(file) {}

  tokenizer_parts read() {
    const json& model = file_.at("model");
    for (const auto& [token, id] : model.at("vocab").items()) {
      parts_.tokens.add(token, checked_id(path_, token, id.get<std::int64_t>()));
    }
    const std::string kind = model.value("type", model.contains("merges") ? "BPE" : "WordPiece");  // older files: none
    if (kind == "WordPiece") {
      read_wordpiece(model);
    } else if (kind == "BPE") {
      read_byte_bpe(model);
    } else {
      refuse("model", kind, "WordPiece or BPE");
    }
    read_layout(member(file_, "post_processor"));
    read_added_tokens();
    return std::move(parts_);
  }

 private:
  [[noreturn]] void refuse(const char* what, const std::string& kind, const char* expected) const {
    throw file_error(
        fmt::format("{}: {} of the type {}, expected {}", path_.string(), what, in_quotes(kind), expected));
  }

  /// The part of the tokenizer, which must be of this type; null if it may be left out and is.
  const json& part(const char* what, const char* expected, bool is_optional) const {
    const json& found = member(file_, what);
    if (found.is_null() && is_optional) return found;
    const std::string kind = found.is_null() ? "null" : found.at("type").get<std::string>();
    if (kind != expected) refuse(what, kind, expected);
    return found;
  }

  std::int32_t id_of(const std::string& token) const {
    if (const auto id = parts_.tokens.find(token)) return *id;
    throw file_error(fmt::format("{}: the vocabulary has no token {}", path_.string(), in_quotes(token)));
  }

  void read_wordpiece(const json& model) {
    part("pre_tokenizer", "BertPreTokenizer", false);
    wordpiece_options options;
    options.rules = {false, false, false, false};
    if (const json& normaliser = part("normalizer", "BertNormalizer", true); !normaliser.is_null()) {
      options.rules.clean_text = normaliser.value("clean_text", true);
      options.rules.split_ideographs = normaliser.value("handle_chinese_chars", true);
      options.rules.lower_case = normaliser.value("lowercase", true);
      const json& strip = member(normaliser, "strip_accents");
      options.rules.strip_accents = strip.is_null() ? options.rules.lower_case : strip.get<bool>();
    }
    options.unknown_id = id_of(model.at("unk_token").get<std::string>());
    options.continuation_prefix = model.value("continuing_subword_prefix", "##");
    options.longest_word = model.value("max_input_chars_per_word", std::int64_t{100});
    if (const json& decoder = member(file_, "decoder"); !decoder.is_null()) {
      options.clean_up_decoded = decoder.value("cleanup", true);
    }
    parts_.model = std::make_unique<wordpiece>(parts_.tokens, options);
  }

  void read_byte_bpe(const json& model) {
    if (!member(file_, "normalizer").is_null()) part("normalizer", "null", false);
    const json& words = part("pre_tokenizer", "ByteLevel", false);
    // What GPT-2's BPE does not do, and would change the tokens.
    for (const char* name :
         {"continuing_subword_prefix", "end_of_word_suffix", "dropout", "byte_fallback", "ignore_merges"}) {
      const json& option = member(model, name);
      if (option.is_null() || option == "" || option == false) continue;
      throw file_error(fmt::format("{}: model with {} {}, expected none", path_.string(), name, option.dump()));
    }
    byte_bpe_options options;
    options.prefix_space = words.value("add_prefix_space", true);
    options.split_words = words.value("use_regex", true);
    options.fuse_unknown = model.value("fuse_unk", false);
    if (const json& unknown = member(model, "unk_token"); !unknown.is_null()) {
      options.unknown_id = id_of(unknown.get<std::string>());
    }
    merge_list merges(path_, parts_.tokens);
    for (const json& merge : model.at("merges")) {
      if (merge.is_string()) {
        merges.add(merge.get_ref<const std::string&>());
      } else {
        merges.add(merge.at(0).get_ref<const std::string&>(), merge.at(1).get_ref<const std::string&>());
      }
    }
    parts_.model = std::make_unique<byte_bpe>(parts_.tokens, merges.merges(), options);
  }

  void read_added_tokens() {
    std::vector<added_token> added;
    if (const json& list = member(file_, "added_tokens"); !list.is_null()) {
      for (const json& token : list) {
        added.push_back(read_added_token(token));
        added.back().id = checked_id(path_, added.back().text, token.at("id").get<std::int64_t>());
        parts_.tokens.add(added.back().text, added.back().id);
      }
    }
    parts_.added = added_tokens(std::move(added), *parts_.model);
  }

  void read_layout(const json& processor) {
    if (processor.is_null()) return;
    const std::string kind = processor.at("type").get<std::string>();
    special_layout& layout = parts_.layout;
    const bool trims_by_itself = layout.trims_spaces;
    if (kind == "Sequence") {
      for (const json& part : processor.at("processors")) read_layout(part);
    } else if (kind == "TemplateProcessing") {
      layout.single = read_template(processor, "single");
      layout.pair = read_template(processor, "pair");
    } else if (kind == "BertProcessing") {
      layout = bert_layout(read_special(processor, "cls"), read_special(processor, "sep"));
      layout.trims_spaces = trims_by_itself;
    } else if (kind == "RobertaProcessing") {
      layout = roberta_layout(read_special(processor, "cls"), read_special(processor, "sep"));
      read_trimming(processor);
    } else if (kind == "ByteLevel") {
      read_trimming(processor);
    } else {
      refuse("post_processor", kind, "TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel or Sequence");
    }
  }

  void read_trimming(const json& processor) {
    parts_.layout.trims_spaces = processor.value("trim_offsets", true);
    parts_.layout.keeps_first_space = processor.value("add_prefix_space", true);
  }

  /// ["[CLS]", 101]
  std::int32_t read_special(const json& processor, const char* name) const {
    const json& token = processor.at(name);
    return checked_id(path_, token.at(0).get<std::string>(), token.at(1).get<std::int64_t>());
  }

  std::vector<layout_item> read_template(const json& processor, const char* name) const {
    using enum layout_item::kind;
    std::vector<layout_item> items;
    for (const json& piece : processor.at(name)) {
      if (const json& sequence = member(piece, "Sequence"); !sequence.is_null()) {
        const bool is_first = sequence.at("id").get<std::string>() == "A";
        items.push_back({is_first ? text : second_text, sequence.at("type_id").get<std::int32_t>()});
        continue;
      }
      const json& token = piece.at("SpecialToken");
      const std::string id = token.at("id").get<std::string>();
      for (const json& number : processor.at("special_tokens").at(id).at("ids")) {
        items.push_back(
            {special, token.at("type_id").get<std::int32_t>(), checked_id(path_, id, number.get<std::int64_t>())});
      }
    }
    return items;
  }

  const std::filesystem::path& path_;
  const json& file_;
  tokenizer_parts parts_;
};

}  // namespace

tokenizer_parts read_tokenizer_json(const std::filesystem::path& folder, const tokenizer_settings& settings) {
  const std::filesystem::path path = folder / "tokenizer.json";
  tokenizer_parts parts = read_json(path, [&](const json& file) { return tokenizer_json_reader(path, file).read(); });
  for (const auto* items : {&parts.layout.single, &parts.layout.pair}) {
    for (const layout_item& item : *items) {
      if (item.what == layout_item::kind::special && !parts.tokens.text(item.id)) {
        throw file_error(fmt::format("{}: post_processor: no token has the id {}", path.string(), item.id));
      }
    }
  }
  parts.special = find_special_ids(parts.tokens, settings);
  return parts;
}

}  // namespace nullscope::detail

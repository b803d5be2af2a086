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

class tokenizer_json_reader {
 public:
  tokenizer_json_reader(const std::filesystem::path& path, const json_reader& file) : path_(path), file_(file) {}

  tokenizer_parts read() {
    const json_reader model = file_.at("model");
    for (const auto& [token, id] : model.at("vocab").members()) {
      parts_.tokens.add(token, checked_id(path_, token, id.integer()));
    }
    const std::string kind = model.string_or("type", model.has("merges") ? "BPE" : "WordPiece");  // older files: none
    if (kind == "WordPiece") {
      read_wordpiece(model);
    } else if (kind == "BPE") {
      read_byte_bpe(model);
    } else {
      refuse("model", kind, "WordPiece or BPE");
    }
    read_layout(file_.member("post_processor"), 0);
    read_added_tokens();
    return std::move(parts_);
  }

 private:
  [[noreturn]] void refuse(const char* what, const std::string& kind, const char* expected) const {
    throw file_error(
        fmt::format("{}: {} of the type {}, expected {}", path_.string(), what, in_quotes(kind), expected));
  }

  /// The part of the tokenizer, which must be of this type; null if it may be left out and is.
  json_reader part(const char* what, const char* expected, bool is_optional) const {
    const json_reader found = file_.member(what);
    if (found.is_null() && is_optional) return found;
    const std::string kind = found.is_null() ? "null" : found.at("type").string();
    if (kind != expected) refuse(what, kind, expected);
    return found;
  }

  std::int32_t id_of(const std::string& token) const {
    if (const auto id = parts_.tokens.find(token)) return *id;
    throw file_error(fmt::format("{}: the vocabulary has no token {}", path_.string(), in_quotes(token)));
  }

  void read_wordpiece(const json_reader& model) {
    part("pre_tokenizer", "BertPreTokenizer", false);
    wordpiece_options options;
    options.rules = {false, false, false, false};
    if (const json_reader normaliser = part("normalizer", "BertNormalizer", true); !normaliser.is_null()) {
      options.rules.clean_text = normaliser.boolean_or("clean_text", true);
      options.rules.split_ideographs = normaliser.boolean_or("handle_chinese_chars", true);
      options.rules.lower_case = normaliser.boolean_or("lowercase", true);
      options.rules.strip_accents = normaliser.boolean_or("strip_accents", options.rules.lower_case);
    }
    options.unknown_id = id_of(model.at("unk_token").string());
    options.continuation_prefix = model.string_or("continuing_subword_prefix", "##");
    if (model.has("max_input_chars_per_word")) options.longest_word = model.at("max_input_chars_per_word").integer();
    if (const json_reader decoder = file_.member("decoder"); !decoder.is_null()) {
      options.clean_up_decoded = decoder.boolean_or("cleanup", true);
    }
    parts_.model = std::make_unique<wordpiece>(parts_.tokens, options);
  }

  void read_byte_bpe(const json_reader& model) {
    if (file_.has("normalizer")) part("normalizer", "null", false);
    const json_reader words = part("pre_tokenizer", "ByteLevel", false);
    // What GPT-2's BPE does not do, and would change the tokens.
    for (const char* name :
         {"continuing_subword_prefix", "end_of_word_suffix", "dropout", "byte_fallback", "ignore_merges"}) {
      const json_reader option = model.member(name);
      if (option.is_null() || option.json() == "" || option.json() == false) continue;
      throw file_error(fmt::format("{}: model with {} {}, expected none", path_.string(), name, option.text()));
    }
    byte_bpe_options options;
    options.prefix_space = words.boolean_or("add_prefix_space", true);
    options.split_words = words.boolean_or("use_regex", true);
    options.fuse_unknown = model.boolean_or("fuse_unk", false);
    if (const json_reader unknown = model.member("unk_token"); !unknown.is_null()) {
      options.unknown_id = id_of(unknown.string());
    }
    merge_list merges(path_, parts_.tokens);
    for (const json_reader& merge : model.at("merges").elements()) {
      if (merge.is_string()) {
        merges.add(merge.string());
      } else {
        merges.add(merge.at(0).string(), merge.at(1).string());
      }
    }
    parts_.model = std::make_unique<byte_bpe>(parts_.tokens, merges.merges(), options);
  }

  void read_added_tokens() {
    std::vector<added_token> added;
    if (const json_reader list = file_.member("added_tokens"); !list.is_null()) {
      for (const json_reader& token : list.elements()) {
        added.push_back(read_added_token(token));
        added.back().id = checked_id(path_, added.back().text, token.at("id").integer());
        parts_.tokens.add(added.back().text, added.back().id);
      }
    }
    parts_.added = added_tokens(std::move(added), *parts_.model);
  }

  /// `depth` counts the sequences that this part stands in.
  void read_layout(const json_reader& processor, int depth) {
    constexpr int deepest = 32;
    if (depth > deepest) processor.fail(fmt::format("more than {} sequences within each other", deepest));
    if (processor.is_null()) return;
    const std::string kind = processor.at("type").string();
    special_layout& layout = parts_.layout;
    const bool trims_by_itself = layout.trims_spaces;
    if (kind == "Sequence") {
      for (const json_reader& part : processor.at("processors").elements()) read_layout(part, depth + 1);
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

  void read_trimming(const json_reader& processor) {
    parts_.layout.trims_spaces = processor.boolean_or("trim_offsets", true);
    parts_.layout.keeps_first_space = processor.boolean_or("add_prefix_space", true);
  }

  /// ["[CLS]", 101]
  std::int32_t read_special(const json_reader& processor, const char* name) const {
    const json_reader token = processor.at(name);
    return checked_id(path_, token.at(0).string(), token.at(1).integer());
  }

  std::vector<layout_item> read_template(const json_reader& processor, const char* name) const {
    using enum layout_item::kind;
    std::vector<layout_item> items;
    for (const json_reader& piece : processor.at(name).elements()) {
      if (const json_reader sequence = piece.member("Sequence"); !sequence.is_null()) {
        const bool is_first = sequence.at("id").string() == "A";
        items.push_back({is_first ? text : second_text, segment_of(sequence)});
        continue;
      }
      const json_reader token = piece.at("SpecialToken");
      const std::string id = token.at("id").string();
      for (const json_reader& number : processor.at("special_tokens").at(id).at("ids").elements()) {
        items.push_back({special, segment_of(token), checked_id(path_, id, number.integer())});
      }
    }
    return items;
  }

  static std::int32_t segment_of(const json_reader& piece) {
    return static_cast<std::int32_t>(piece.at("type_id").integer(0, std::numeric_limits<std::int32_t>::max()));
  }

  const std::filesystem::path& path_;
  const json_reader& file_;
  tokenizer_parts parts_;
};

}  // namespace

tokenizer_parts read_tokenizer_json(const std::filesystem::path& folder, const tokenizer_settings& settings) {
  const std::filesystem::path path = folder / "tokenizer.json";
  tokenizer_parts parts =
      read_json(path, [&](const json_reader& file) { return tokenizer_json_reader(path, file).read(); });
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

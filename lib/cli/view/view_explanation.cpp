#include "lib/cli/view/view_explanation.hpp"

#include <fmt/format.h>

#include <nullscope/core/errors.hpp>

#include "lib/cli/common/files.hpp"

namespace nullscope::cli {
namespace {

using json = nlohmann::ordered_json;

/// Access to an explain.json that names the file, the key and what was expected.
class explain_reader {
 public:
  explicit explain_reader(const std::filesystem::path& file) : file_(file.string()) {}

  const json& member(const json& object, const char* key) const {
    if (object.is_object() && object.contains(key)) return object[key];
    throw file_error(fmt::format("{} is not an explain.json: {} is missing", file_, key));
  }
  const json& list(const json& value, const char* what) const {
    if (value.is_array()) return value;
    throw file_error(fmt::format("{} is not an explain.json: {} is not an array", file_, what));
  }
  std::int64_t integer(const json& object, const char* key) const {
    const json& value = member(object, key);
    if (value.is_number_integer()) return value.get<std::int64_t>();
    throw file_error(fmt::format("{} is not an explain.json: {} is not a whole number", file_, key));
  }

 private:
  std::string file_;
};

/// The scores of one explanation at the tokens of the text, found by where they begin and end.
json scores_of(const explain_reader& reader, const json& explanation, const encoded_text& tokens) {
  json scores = json::array();
  for (std::size_t i = 0; i < tokens.ids.size(); ++i) scores.push_back(nullptr);
  for (const json& token : reader.list(reader.member(explanation, "tokens"), "tokens")) {
    const text_range range{reader.integer(token, "begin"), reader.integer(token, "end")};
    for (std::size_t i = 0; i < tokens.offsets.size(); ++i) {
      if (tokens.special_mask[i] != 0 || tokens.offsets[i] != range) continue;
      scores[i] = reader.member(token, token.contains("linearised") ? "linearised" : "attribution");
    }
  }
  return scores;
}

}  // namespace

json read_explanation(const std::filesystem::path& file, const input_text& text) {
  const explain_reader reader(file);
  const json all = json::parse(read_file(file), nullptr, false);
  if (all.is_discarded()) throw file_error(fmt::format("{} is not JSON", file.string()));
  for (const json& one : reader.list(all, "the document")) {
    if (reader.member(one, "text") != text.text || text.text.empty()) continue;
    return {{"method", reader.member(one, "method")},
            {"label", reader.member(one, "label")},
            {"scores", scores_of(reader, one, text.tokens)}};
  }
  throw file_error(fmt::format("{} has no explanation of this text", file.string()));
}

}  // namespace nullscope::cli

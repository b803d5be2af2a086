#include "view/view_explanation.hpp"

#include <fmt/format.h>

#include <nullscope/errors.hpp>

#include "common/files.hpp"

namespace nullscope::cli {
namespace {

using json = nlohmann::ordered_json;

/// The scores of one explanation at the tokens of the text, found by where they begin and end.
json scores_of(const json& explanation, const encoded_text& tokens) {
  json scores = json::array();
  for (std::size_t i = 0; i < tokens.ids.size(); ++i) scores.push_back(nullptr);
  for (const json& token : explanation.at("tokens")) {
    const text_range range{token.at("begin").get<std::int64_t>(), token.at("end").get<std::int64_t>()};
    for (std::size_t i = 0; i < tokens.offsets.size(); ++i) {
      if (tokens.special_mask[i] != 0 || tokens.offsets[i] != range) continue;
      scores[i] = token.contains("linearised") ? token.at("linearised") : token.at("attribution");
    }
  }
  return scores;
}

}  // namespace

json read_explanation(const std::filesystem::path& file, const input_text& text) {
  try {
    for (const json& one : json::parse(read_file(file))) {
      if (one.at("text") != text.text || text.text.empty()) continue;
      return {{"method", one.at("method")}, {"label", one.at("label")}, {"scores", scores_of(one, text.tokens)}};
    }
  } catch (const json::exception& error) {
    throw file_error(fmt::format("{} is not an explain.json: {}", file.string(), error.what()));
  }
  throw file_error(fmt::format("{} has no explanation of this text", file.string()));
}

}  // namespace nullscope::cli

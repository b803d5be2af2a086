/// What the real tokenizers gave, as tests/text/make_tokenizer_expected.py wrote it.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <nullscope/text/tokenizer.hpp>
#include <string>
#include <vector>

namespace nullscope::test {

inline std::filesystem::path tokenizer_data() { return std::filesystem::path(NULLSCOPE_TOKENIZER_DATA); }

inline std::string content(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The texts as bytes: a line of four dashes is behind each.
inline std::vector<std::string> nasty_texts() {
  const std::string all = content(tokenizer_data() / "texts.txt"), separator = "\n----\n";
  std::vector<std::string> texts;
  for (std::size_t begin = 0, end = 0; (end = all.find(separator, begin)) != std::string::npos;) {
    texts.push_back(all.substr(begin, end - begin));
    begin = end + separator.size();
  }
  return texts;
}

inline nlohmann::json expected_of(const std::string& kind) {
  return nlohmann::json::parse(content(tokenizer_data() / kind / "expected.json"));
}

/// What a case expects. Without a pair, segments and sources follow from the rest.
inline encoded_text to_encoded_text(const nlohmann::json& expected) {
  encoded_text text;
  text.ids = expected.at("ids").get<std::vector<std::int32_t>>();
  text.words = expected.at("words").get<std::vector<std::int32_t>>();
  const std::size_t count = text.ids.size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t begin = expected.at("begins").at(i), size = expected.at("sizes").at(i);
    text.offsets.push_back({begin, begin + size});
    text.sources.push_back(expected.contains("sources") ? expected["sources"][i].get<std::int32_t>()
                           : text.words[i] < 0          ? -1
                                                        : 0);
    text.special_mask.push_back(text.words[i] < 0 ? 1 : 0);
  }
  text.segments = expected.value("segments", std::vector<std::int32_t>(count, 0));
  text.truncated = expected.value("truncated", false);
  return text;
}

}  // namespace nullscope::test

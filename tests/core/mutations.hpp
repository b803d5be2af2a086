/// Damaged files: the same ones in every run, since the seed is fixed.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

namespace nullscope::test {

class mutations {
 public:
  explicit mutations(std::uint64_t seed) : random_(seed) {}

  /// The text with one to four changes: bytes replaced, left out, repeated or moved, or a number made extreme.
  std::string of_text(std::string text) {
    for (std::size_t i = 0, count = 1 + below(4); i < count && !text.empty(); ++i) change(text);
    return text;
  }

  /// The document with one to three values replaced, removed or swapped.
  std::string of_json(const std::string& text) {
    nlohmann::json document = nlohmann::json::parse(text);
    for (std::size_t i = 0, count = 1 + below(3); i < count; ++i) {
      std::vector<nlohmann::json::json_pointer> places;
      collect(document, nlohmann::json::json_pointer(), places);
      nlohmann::json& value = document[places[below(places.size())]];
      value = below(8) == 0 ? nlohmann::json(document[places[below(places.size())]]) : any_value();
    }
    return document.dump();
  }

  std::size_t below(std::size_t count) { return static_cast<std::size_t>(random_() % count); }

 private:
  /// All values of the document, or those around a random one if there are many.
  void collect(const nlohmann::json& value, const nlohmann::json::json_pointer& place,
               std::vector<nlohmann::json::json_pointer>& places) {
    constexpr std::size_t most_of_one = 40;  // a vocabulary must not outnumber all the rest
    places.push_back(place);
    if (!value.is_structured()) return;
    const std::size_t step = 1 + value.size() / most_of_one;
    std::size_t number = below(step);
    for (const auto& [key, member] : value.items()) {
      if (number++ % step != 0) continue;
      if (value.is_array()) {
        collect(member, place / static_cast<std::size_t>(std::stoull(key)), places);
      } else {
        collect(member, place / key, places);
      }
    }
  }

  nlohmann::json any_value() {
    nlohmann::json deep = nlohmann::json::array();
    for (int i = 0; i < 2000; ++i) deep = nlohmann::json::array({std::move(deep)});
    const nlohmann::json values[] = {nullptr,
                                     true,
                                     false,
                                     "",
                                     "x",
                                     "##",
                                     std::string(300, 'y'),
                                     "\u00e9\u4e2d",
                                     0,
                                     1,
                                     2,
                                     7,
                                     -1,
                                     1'000'000'007,
                                     std::numeric_limits<std::int32_t>::max(),
                                     std::numeric_limits<std::int64_t>::max(),
                                     std::numeric_limits<std::int64_t>::min(),
                                     std::numeric_limits<std::uint64_t>::max(),
                                     0.5,
                                     1e-300,
                                     1e300,
                                     nlohmann::json::array(),
                                     nlohmann::json::object(),
                                     {1, "a"},
                                     deep};
    return values[below(std::size(values))];
  }

  void change(std::string& text) {
    const std::size_t begin = below(text.size()), count = 1 + below(std::min<std::size_t>(16, text.size() - begin));
    switch (below(6)) {
      case 0: text[begin] = static_cast<char>(below(256)); break;
      case 1: text.erase(begin, count); break;
      case 2: text.insert(begin, text.substr(begin, count)); break;
      case 3: text.insert(below(text.size()), text.substr(begin, count)); break;
      case 4: text.insert(begin, std::string(1, "\"\n\r,;\t\0{}[]:\xff"[below(13)])); break;
      default: text.resize(begin); break;
    }
  }

  std::mt19937_64 random_;
};

}  // namespace nullscope::test

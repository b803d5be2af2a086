/// Members of a config.json by their names.
#pragma once

#include <cstdint>
#include <limits>
#include <nullscope/model/layers.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "lib/src/io/json_reader.hpp"

namespace nullscope::detail {

/// A config.json.
class config_reader {
 public:
  explicit config_reader(const json_reader& document) : document_(document) {}

  [[noreturn]] void fail(std::string_view why) const { document_.fail(why); }

  bool has(const char* name) const { return document_.has(name); }

  template <class Value>
  Value get(const char* name) const {
    return value<Value>(document_.at(name));
  }
  template <class Value>
  Value get(const char* name, const Value& otherwise) const {
    return has(name) ? value<Value>(document_.at(name)) : otherwise;
  }

  /// Throws file_error if it is not one of the library's.
  activation function(const char* name) const;

  /// Names of the classes, by number, if the model is for sequence classification.
  std::vector<std::string> labels() const;

 private:
  template <class Value>
  static Value value(const json_reader& found) {
    if constexpr (std::is_same_v<Value, std::string>) {
      return found.string();
    } else if constexpr (std::is_same_v<Value, bool>) {
      return found.boolean();
    } else if constexpr (std::is_same_v<Value, double>) {
      return found.number();
    } else if constexpr (std::is_same_v<Value, std::int64_t>) {
      constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();  // so that sums and products fit
      return found.integer(-most, most);
    } else {
      static_assert(std::is_same_v<Value, std::vector<std::string>>);
      std::vector<std::string> texts;
      for (const json_reader& element : found.elements()) texts.push_back(element.string());
      return texts;
    }
  }

  const json_reader& document_;
};

}  // namespace nullscope::detail

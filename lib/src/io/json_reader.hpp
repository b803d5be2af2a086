/// Checked access to JSON: what is missing or of the wrong type is a file_error that names the file and the place in
/// it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/src/io/text_files.hpp"

namespace nullscope::detail {

/// A value within a JSON document. Refers to the document, and to the name of its file.
class json_reader {
 public:
  json_reader(std::string_view file, const nlohmann::json& document) : json_reader(file, document, "") {}

  /// The member that must be there, and must not be null.
  json_reader at(std::string_view key) const;
  /// The member; null if it is not there.
  json_reader member(std::string_view key) const;
  /// Whether the member is there and not null.
  bool has(std::string_view key) const { return !member(key).is_null(); }

  /// The element of an array that must have as many as `index` + 1.
  json_reader at(std::size_t index) const;
  /// All elements of an array.
  std::vector<json_reader> elements() const;
  /// All members of an object, with their names.
  std::vector<std::pair<std::string, json_reader>> members() const;

  bool is_null() const { return value_->is_null(); }
  bool is_string() const { return value_->is_string(); }
  bool is_object() const { return value_->is_object(); }
  bool is_number() const { return value_->is_number(); }

  const std::string& string() const;
  bool boolean() const;
  double number() const;
  /// A whole number from `least` to `most`.
  std::int64_t integer(std::int64_t least = std::numeric_limits<std::int64_t>::min(),
                       std::int64_t most = std::numeric_limits<std::int64_t>::max()) const;

  /// The same of a member that may be missing or null.
  std::string string_or(std::string_view key, std::string_view otherwise) const;
  bool boolean_or(std::string_view key, bool otherwise) const;
  double number_or(std::string_view key, double otherwise) const;

  /// The value as messages show it: short, on one line.
  std::string text() const;
  const nlohmann::json& json() const { return *value_; }

  /// Throws file_error: the file, the place, and what is wrong with it.
  [[noreturn]] void fail(std::string_view why) const;

 private:
  json_reader(std::string_view file, const nlohmann::json& value, std::string place)
      : file_(file), value_(&value), place_(std::move(place)) {}
  [[noreturn]] void expected(std::string_view what) const;
  std::string place_of(std::string_view key) const;

  std::string_view file_;
  const nlohmann::json* value_;
  std::string place_;  ///< "model.vocab", for instance; empty for the document
};

/// What the text is as JSON. Throws file_error, with line and column, if it is none. `file` is what messages begin
/// with.
nlohmann::json parse_json(std::string_view file, std::string_view text);

/// What read(json_reader) makes of the file. Throws file_error if the file is not JSON.
template <class Read>
auto read_json(const std::filesystem::path& path, Read read) {
  const std::string name = path.string();
  const nlohmann::json document = parse_json(name, read_file(path));
  return read(json_reader(name, document));
}

}  // namespace nullscope::detail

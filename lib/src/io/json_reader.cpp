#include "lib/src/io/json_reader.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nullscope/core/errors.hpp>
#include <utility>

#include "lib/src/io/safetensors_format.hpp"

namespace nullscope::detail {
namespace {

const nlohmann::json& no_value() {
  static const nlohmann::json null;
  return null;
}

/// Without the name of the library, and without what it has read: "[json.exception.parse_error.101] parse error at line
/// 1, column 2: <reason>; last read: '<any length>'".
std::string reason_of(const nlohmann::json::exception& failure) {
  std::string_view reason = failure.what();
  reason = reason.substr(0, reason.find("; last read"));
  if (const std::size_t end = reason.find("] "); end != reason.npos) reason.remove_prefix(end + 2);
  return std::string(reason.substr(0, 200));
}

}  // namespace

json_reader json_reader::at(std::string_view key) const {
  json_reader found = member(key);
  if (found.is_null()) throw file_error(fmt::format("{}: {} is missing", file_, found.place_));
  return found;
}

json_reader json_reader::member(std::string_view key) const {
  if (!value_->is_object()) expected("an object");
  const auto found = value_->find(key);
  return {file_, found == value_->end() ? no_value() : *found, place_of(key)};
}

json_reader json_reader::at(std::size_t index) const {
  if (!value_->is_array() || index >= value_->size()) {
    expected(fmt::format("an array of at least {} elements", index + 1));
  }
  return {file_, (*value_)[index], fmt::format("{}[{}]", place_, index)};
}

std::vector<json_reader> json_reader::elements() const {
  if (!value_->is_array()) expected("an array");
  std::vector<json_reader> result;
  for (std::size_t i = 0; i < value_->size(); ++i) result.push_back(at(i));
  return result;
}

std::vector<std::pair<std::string, json_reader>> json_reader::members() const {
  if (!value_->is_object()) expected("an object");
  std::vector<std::pair<std::string, json_reader>> result;
  for (const auto& [key, value] : value_->items()) {
    result.emplace_back(key, json_reader(file_, value, place_of(key)));
  }
  return result;
}

const std::string& json_reader::string() const {
  if (!value_->is_string()) expected("a string");
  return value_->get_ref<const std::string&>();
}

bool json_reader::boolean() const {
  if (!value_->is_boolean()) expected("true or false");
  return value_->get<bool>();
}

double json_reader::number() const {
  if (!value_->is_number()) expected("a number");
  return value_->get<double>();
}

std::int64_t json_reader::integer(std::int64_t least, std::int64_t most) const {
  const auto refuse = [&] { expected("a whole number of 64 bits"); };
  std::int64_t number = 0;
  if (value_->is_number_unsigned()) {
    const auto wide = value_->get<std::uint64_t>();
    if (!std::in_range<std::int64_t>(wide)) refuse();
    number = static_cast<std::int64_t>(wide);
  } else if (value_->is_number_integer()) {
    number = value_->get<std::int64_t>();
  } else {                                      // some writers give 12.0 for 12
    constexpr double exact = 9007199254740992;  // 2^53
    const double wide = value_->is_number_float() ? value_->get<double>() : 0.5;
    if (!(std::abs(wide) <= exact) || wide != std::floor(wide)) refuse();
    number = static_cast<std::int64_t>(wide);
  }
  if (number < least || number > most) {
    throw file_error(fmt::format("{}: {} is {}, expected {} to {}", file_, place_, number, least, most));
  }
  return number;
}

std::string json_reader::string_or(std::string_view key, std::string_view otherwise) const {
  const json_reader found = member(key);
  return found.is_null() ? std::string(otherwise) : found.string();
}

bool json_reader::boolean_or(std::string_view key, bool otherwise) const {
  const json_reader found = member(key);
  return found.is_null() ? otherwise : found.boolean();
}

double json_reader::number_or(std::string_view key, double otherwise) const {
  const json_reader found = member(key);
  return found.is_null() ? otherwise : found.number();
}

std::string json_reader::text() const {
  if (value_->is_string()) return in_quotes(value_->get_ref<const std::string&>());
  if (value_->is_structured()) return value_->is_object() ? "an object" : "an array";  // of any depth
  return value_->dump();
}

void json_reader::fail(std::string_view why) const {
  throw file_error(place_.empty() ? fmt::format("{}: {}", file_, why) : fmt::format("{}: {}: {}", file_, place_, why));
}

void json_reader::expected(std::string_view what) const {
  const std::string place = place_.empty() ? "the document" : place_;
  throw file_error(fmt::format("{}: {} is {}, which is of the wrong type: expected {}", file_, place, text(), what));
}

std::string json_reader::place_of(std::string_view key) const {
  constexpr std::size_t longest = 80;
  const bool is_plain =
      key.size() <= longest &&
      key.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == key.npos &&
      !key.empty();
  const std::string name = is_plain ? std::string(key) : in_quotes(key);
  return place_.empty() ? name : fmt::format("{}.{}", place_, name);
}

nlohmann::json parse_json(std::string_view file, std::string_view text) {
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& failure) {
    throw file_error(fmt::format("{}: not JSON: {}", file, reason_of(failure)));
  }
}

}  // namespace nullscope::detail

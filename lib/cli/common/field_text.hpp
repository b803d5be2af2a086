/// Values as the fields of the files that commands write.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

namespace nullscope::cli {

/// The text as a field of a CSV file, in quotes if it needs them.
inline std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted.append(c == '"' ? 2 : 1, c);
  return quoted + '"';
}

/// JSON has neither NaN nor infinity: null instead.
inline nlohmann::ordered_json json_number(double x) {
  return std::isfinite(x) ? nlohmann::ordered_json(x) : nlohmann::ordered_json(nullptr);
}

}  // namespace nullscope::cli

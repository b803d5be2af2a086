/// Reads what `nullscope view` wrote into its page.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace nullscope::test {

/// The text of the script element with this id; empty if there is none.
inline std::string element_text(const std::string& html, const std::string& id) {
  const std::size_t at = html.find("id=\"" + id + "\">");
  if (at == std::string::npos) return "";
  const std::size_t begin = html.find('>', at) + 1;
  return html.substr(begin, html.find("</script>", begin) - begin);
}

inline std::vector<std::uint8_t> decoded_base64(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<std::uint8_t> bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const std::size_t digit = digits.find(c);
    if (digit == std::string::npos) {
      EXPECT_EQ(c, '=') << "not base64";
      continue;
    }
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes.push_back(static_cast<std::uint8_t>(bits >> count));
  }
  return bytes;
}

inline double value_of_half(std::uint32_t bits) {
  const int exponent = static_cast<int>(bits >> 10 & 31u);
  const double fraction = static_cast<double>(bits & 1023u);
  const double size = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return (bits & 0x8000u) != 0 ? -size : size;
}

/// The numbers in the element with this id.
inline std::vector<double> element_numbers(const std::string& html, const std::string& id) {
  const std::vector<std::uint8_t> bytes = decoded_base64(element_text(html, id));
  std::vector<double> numbers;
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 2) {
    numbers.push_back(value_of_half(bytes[i] | static_cast<std::uint32_t>(bytes[i + 1]) << 8));
  }
  return numbers;
}

inline nlohmann::json page_data(const std::string& html) { return nlohmann::json::parse(element_text(html, "data")); }

/// Half of the distance between neighbours in half precision: how far rounding moves a number.
inline double half_rounding(double x) { return std::max(std::abs(x) * 0x1p-11, 0x1p-25); }

}  // namespace nullscope::test

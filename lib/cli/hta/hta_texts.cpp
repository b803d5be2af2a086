#include "lib/cli/hta/hta_texts.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <nullscope/core/errors.hpp>
#include <numeric>
#include <string_view>

namespace nullscope::cli {
namespace {

constexpr std::size_t digits_of_a_number = 8;  // hexadecimal ones, of the bits of a float

void append_numbers(std::string& text, const std::vector<double>& numbers) {
  constexpr char digits[] = "0123456789abcdef";
  for (const double number : numbers) {
    const float rounded = static_cast<float>(number);
    std::uint32_t bits = 0;
    std::memcpy(&bits, &rounded, sizeof(bits));
    for (int shift = 28; shift >= 0; shift -= 4) text += digits[bits >> shift & 15];
  }
}

std::vector<double> numbers_of(std::string_view text) {
  std::vector<double> numbers;
  numbers.reserve(text.size() / digits_of_a_number);
  for (std::size_t i = 0; i + digits_of_a_number <= text.size(); i += digits_of_a_number) {
    std::uint32_t bits = 0;
    std::from_chars(text.data() + i, text.data() + i + digits_of_a_number, bits, 16);
    float number = 0;
    std::memcpy(&number, &bits, sizeof(number));
    numbers.push_back(number);
  }
  return numbers;
}

}  // namespace

std::vector<hta_unit> hta_units(const std::vector<input_text>& texts, std::int64_t tangents_per_token) {
  constexpr std::int64_t enough = std::int64_t{1} << 17;  // tangents times tokens, of all texts together
  std::vector<std::size_t> order(texts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto length = [&](std::size_t i) { return static_cast<std::int64_t>(texts[i].tokens.ids.size()); };
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return length(a) < length(b); });
  std::vector<hta_unit> units;
  for (const std::size_t i : order) {
    const std::int64_t work = length(i) * length(i) * tangents_per_token;
    const bool fits = !units.empty() && static_cast<std::int64_t>(units.back().size() + 1) * work <= enough;
    if (!fits) units.emplace_back();
    units.back().push_back(i);
  }
  return units;
}

void append_attribution(std::string& text, const attribution& of) {
  const std::size_t numbers = of.norm.size() + of.contribution.size() + of.standard_error.size();
  text.reserve(text.size() + digits_of_a_number * numbers + 1);
  append_numbers(text, of.norm);
  append_numbers(text, of.contribution);
  append_numbers(text, of.standard_error);
  text += '\n';
}

attribution decode_attribution(std::string_view text, std::int64_t tokens, const std::vector<std::int64_t>& layers) {
  attribution of;
  of.tokens = tokens;
  of.layers = layers;
  const std::size_t digits = digits_of_a_number * layers.size() * static_cast<std::size_t>(tokens * tokens);
  if (text.size() != 2 * digits && text.size() != 3 * digits) {
    throw invalid_argument("a result of another process or run does not fit its text");
  }
  of.norm = numbers_of(text.substr(0, digits));
  of.contribution = numbers_of(text.substr(digits, digits));
  of.standard_error = numbers_of(text.substr(2 * digits));
  return of;
}

}  // namespace nullscope::cli

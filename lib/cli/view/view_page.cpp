#include "lib/cli/view/view_page.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nullscope/core/version.hpp>

#include "lib/cli/common/field_text.hpp"
#include "lib/cli/common/files.hpp"

namespace nullscope::cli {
namespace {

using json = nlohmann::ordered_json;

constexpr std::string_view settings_element = "<script type=\"application/json\" id=\"settings\">";

/// To four significant digits.
double rounded(double x) { return std::stod(fmt::format("{:.4g}", x)); }

/// The text of token i as it was given, and what stands between it and the token before.
json token_json(const view_page& page, std::size_t i) {
  const encoded_text& tokens = page.text.tokens;
  json token{{"text", page.vocabulary[i]}, {"vocabulary", page.vocabulary[i]}, {"gap", i > 0 ? " " : ""}};
  const bool has_words = tokens.words.size() == tokens.ids.size();
  const bool is_special = !tokens.special_mask.empty() && tokens.special_mask[i] != 0;
  token["special"] = is_special;
  token["continues"] = has_words && i > 0 && tokens.words[i] >= 0 && tokens.words[i] == tokens.words[i - 1] &&
                       tokens.sources[i] == tokens.sources[i - 1];
  if (tokens.offsets.empty() || is_special) return token;
  const std::string& source = tokens.sources[i] == 1 ? page.text.pair : page.text.text;
  const auto part = [&](std::int64_t begin, std::int64_t end) {
    return source.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(std::max(begin, end) - begin));
  };
  const auto [begin, end] = tokens.offsets[i];
  token["text"] = part(begin, end);
  token["repeats"] = i > 0 && begin < tokens.offsets[i - 1].end && tokens.sources[i] == tokens.sources[i - 1];
  const bool follows = i > 0 && tokens.sources[i] == tokens.sources[i - 1];
  token["gap"] = part(follows ? tokens.offsets[i - 1].end : 0, begin);
  return token;
}

json data_json(const view_page& page) {
  const attention_parts<float>& parts = page.parts;
  json data{{"version", version()},
            {"model", page.model},
            {"layers", parts.layers},
            {"heads", parts.heads},
            {"effective", page.causal ? "triangle" : "basis"},
            {"tokens", json::array()},
            {"rank", parts.rank}};
  for (std::size_t i = 0; i < page.text.tokens.ids.size(); ++i) data["tokens"].push_back(token_json(page, i));
  for (std::size_t i = 0; i < parts.rank.size(); ++i) {
    const effective_attention_summary<float>& summary = parts.summary[i];
    data["pearson"].push_back(json_number(summary.pearson));
    data["rawNorm"].push_back(json_number(summary.raw_norm));
    data["effectiveNorm"].push_back(json_number(summary.effective_norm));
    data["nullNorm"].push_back(json_number(summary.null_norm));
    data["entropy"].push_back(json_number(parts.entropy[i]));
    json values = json::array();
    const float* const first = parts.singular_values.data() + static_cast<std::int64_t>(i) * parts.columns;
    for (std::int64_t c = 0; c < parts.columns; ++c) values.push_back(rounded(first[c]));
    data["singularValues"].push_back(std::move(values));
  }
  if (page.contributions) data["attribution"] = {{"samples", page.samples}};
  if (!page.explanation.is_null()) data["explanation"] = page.explanation;
  return data;
}

/// JSON inside of a script element: nothing in it may look like the end of the element, or a comment.
std::string safe_json(const json& data) {
  std::string text = data.dump(-1, ' ', true, json::error_handler_t::replace), safe;
  safe.reserve(text.size());
  for (const char c : text) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

/// The numbers of one head in the order of the page.
std::vector<float> head_numbers(const view_page& page, std::size_t head) {
  const attention_parts<float>& parts = page.parts;
  const std::size_t s = static_cast<std::size_t>(parts.tokens), c = static_cast<std::size_t>(parts.columns);
  const float* const raw = parts.raw.data() + head * s * s;
  std::vector<float> numbers;
  if (page.causal) {
    for (const float* matrix : {raw, parts.effective.data() + head * s * s}) {
      for (std::size_t i = 0; i < s; ++i) numbers.insert(numbers.end(), matrix + i * s, matrix + i * s + i + 1);
    }
    return numbers;
  }
  numbers.assign(raw, raw + s * s);
  const std::size_t rank = static_cast<std::size_t>(parts.rank[head]);
  if (rank == s) return numbers;
  const float* const basis = parts.basis.data() + head * s * c;
  for (std::size_t i = 0; i < s; ++i) numbers.insert(numbers.end(), basis + i * c, basis + i * c + rank);
  return numbers;
}

std::string element(const std::string& id, std::span<const float> numbers) {
  return fmt::format("<script type=\"text/plain\" id=\"{}\">{}</script>\n", id, encoded_halves(numbers));
}

}  // namespace

std::uint16_t half_bits(float number) {
  if (std::isnan(number)) return 0x7e00;
  const std::uint32_t sign = std::signbit(number) ? 0x8000 : 0;
  const double size = std::abs(static_cast<double>(number));
  std::uint32_t bits = 0x7c00;  // infinity
  if (size < 0x1p-14) {
    bits = static_cast<std::uint32_t>(std::lrint(size * 0x1p24));
  } else if (size < 65520) {  // larger numbers round to infinity
    int exponent = 0;
    const double fraction = std::frexp(size, &exponent);  // 0.5 to 1
    bits = static_cast<std::uint32_t>((exponent + 14) * 1024 + std::lrint(fraction * 2048) - 1024);
  }
  return static_cast<std::uint16_t>(sign | bits);
}

std::string encoded_halves(std::span<const float> numbers) {
  constexpr char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto byte = [&](std::size_t i) -> std::uint32_t {
    if (i >= 2 * numbers.size()) return 0;
    const std::uint16_t bits = half_bits(numbers[i / 2]);
    return i % 2 == 0 ? bits & 255u : bits >> 8;
  };
  std::string text;
  text.reserve((2 * numbers.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < 2 * numbers.size(); i += 3) {
    const std::uint32_t three = byte(i) << 16 | byte(i + 1) << 8 | byte(i + 2);
    for (int shift = 18; shift >= 0; shift -= 6) text += digits[three >> shift & 63];
  }
  for (std::size_t i = 0; i < (3 - 2 * numbers.size() % 3) % 3; ++i) text[text.size() - 1 - i] = '=';
  return text;
}

std::optional<json> settings_in_page(const std::filesystem::path& path) {
  const std::string html = read_file(path);
  const std::size_t element = html.find(settings_element), begin = element + settings_element.size();
  if (element == std::string::npos) return std::nullopt;
  const json settings = json::parse(html.substr(begin, html.find('<', begin) - begin), nullptr, false);
  return settings.is_object() ? std::optional(settings) : std::nullopt;
}

std::string page_html(const view_page& page) {
  std::string data = fmt::format("{}{}</script>\n", settings_element, safe_json(page.settings));
  data += fmt::format("<script type=\"application/json\" id=\"data\">{}</script>\n", safe_json(data_json(page)));
  const std::size_t heads = static_cast<std::size_t>(page.parts.heads);
  for (std::size_t i = 0; i < page.parts.rank.size(); ++i) {
    data += element(fmt::format("head-{}-{}", i / heads, i % heads), head_numbers(page, i));
  }
  if (page.contributions) {
    const std::vector<double>& shares = page.contributions->contribution;
    data += element("contributions", std::vector<float>(shares.begin(), shares.end()));
    const std::vector<double> errors = relative_errors(*page.contributions);
    if (!errors.empty()) data += element("contribution-errors", std::vector<float>(errors.begin(), errors.end()));
  }
  constexpr std::string_view place = "@DATA@\n";
  const std::string_view whole = page_template();
  const std::size_t at = whole.find(place);
  std::string html(whole.substr(0, at));
  html += data;
  html += whole.substr(at + place.size());
  return html;
}

}  // namespace nullscope::cli

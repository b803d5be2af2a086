/// The pictures of `nullscope explain`.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>

#include "lib/cli/charts/chart.hpp"
#include "lib/cli/charts/svg_text.hpp"
#include "lib/cli/explain/explain_output.hpp"

namespace nullscope::cli {
namespace {

constexpr double character_width = 8.4, line_height = 24, margin = 16;  // of a monospaced font of 14 units
constexpr std::size_t line_length = 84;                                 // characters

/// Characters of UTF-8 text.
std::size_t character_count(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
}

/// A piece of the text; score is NaN between tokens.
struct piece {
  std::string text;
  double score;
};

/// The text in pieces: tokens and what stands between them. Without offsets, the tokens by themselves.
std::vector<piece> pieces_of(const explained_result& result) {
  std::vector<piece> pieces;
  std::int64_t done = 0;
  for (std::size_t i = 0; i < result.tokens.size(); ++i) {
    if (!has_scores(result, i)) continue;
    const double score = result.found.attribution[i];
    if (result.encoded.offsets.empty()) {
      pieces.push_back({result.tokens[i], score});
      pieces.push_back({" ", std::nan("")});
      continue;
    }
    const auto [begin, end] = result.encoded.offsets[i];
    if (begin < done) continue;  // a second token of the same character
    const auto part = [&](std::int64_t from, std::int64_t to) {
      return result.text.substr(static_cast<std::size_t>(from), static_cast<std::size_t>(to - from));
    };
    if (begin > done) pieces.push_back({part(done, begin), std::nan("")});
    pieces.push_back({part(begin, end), score});
    done = end;
  }
  return pieces;
}

}  // namespace

std::string scatter_chart(const explained_result& result) {
  const slalom_scores& scores = result.found.slalom;
  std::map<std::string, chart_point> points;  // each token once
  for (std::size_t i = 0; i < result.tokens.size(); ++i) {
    if (!has_scores(result, i) || !std::isfinite(scores.value[i]) || !std::isfinite(scores.importance[i])) continue;
    const double error = scores.importance_error.empty() ? 0 : scores.importance_error[i];
    const double bar = std::isfinite(error) ? error : 0;
    points[result.tokens[i]] = {scores.value[i], scores.importance[i], scores.importance[i] - bar,
                                scores.importance[i] + bar, result.tokens[i]};
  }
  chart_series supporting{"for " + result.label, chart_colour::blue, chart_mark::circle, {}};
  chart_series opposing{"against it", chart_colour::orange, chart_mark::circle, {}};
  double reach = 1e-9, low = 0, high = 0;
  std::vector<chart_point> ranked;  // by the size of v exp(s): labels of the first ones have room
  for (const auto& [token, point] : points) ranked.push_back(point);
  std::ranges::stable_sort(ranked, std::greater<>{},
                           [](const chart_point& p) { return std::abs(p.x) * std::exp(p.y); });
  for (const chart_point& point : ranked) {
    reach = std::max(reach, std::abs(point.x));
    low = std::min(low, point.low);
    high = std::max(high, point.high);
    (point.x >= 0 ? supporting : opposing).points.push_back(point);
  }
  const double space = 0.05 * (high - low) + 1e-9;
  chart_panel panel{"Tokens of the text",
                    {"value v", chart_scale::linear, -1.1 * reach, 1.1 * reach},
                    {"importance s", chart_scale::linear, low - space, high + space},
                    {supporting, opposing}};
  return draw_chart("SLALOM: values and importances", {panel}, 1);
}

std::string marked_text(const explained_result& result) {
  const std::vector<piece> pieces = pieces_of(result);
  double largest = 1e-300;
  for (const piece& p : pieces) largest = std::isnan(p.score) ? largest : std::max(largest, std::abs(p.score));
  std::string body;
  std::size_t column = 0, line = 0;
  for (const piece& p : pieces) {
    const std::size_t length = character_count(p.text);
    const bool breaks = p.text.find('\n') != std::string::npos;
    if (breaks || (column > 0 && column + length > line_length)) {
      column = 0;
      ++line;
      if (std::isnan(p.score)) continue;  // a line does not begin with a space
    }
    const double x = margin + character_width * static_cast<double>(column);
    const double y = margin + 40 + line_height * static_cast<double>(line);
    if (!std::isnan(p.score)) {
      fmt::format_to(std::back_inserter(body),
                     "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"20\" rx=\"3\" fill=\"{}\" "
                     "fill-opacity=\"{:.3f}\"><title>{:.5g}</title></rect>",
                     x - 1, y - 15, character_width * static_cast<double>(length) + 2,
                     p.score >= 0 ? chart_colour::blue : chart_colour::orange, 0.75 * std::abs(p.score) / largest,
                     p.score);
    }
    fmt::format_to(std::back_inserter(body),
                   "<text x=\"{:.1f}\" y=\"{:.1f}\" textLength=\"{:.1f}\" xml:space=\"preserve\">{}</text>\n", x, y,
                   character_width * static_cast<double>(length), svg_text(p.text));
    column += length;
  }
  const double width = 2 * margin + character_width * static_cast<double>(line_length);
  const double height = 2 * margin + 40 + line_height * static_cast<double>(line);
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "font-family=\"DejaVu Sans Mono, Menlo, Consolas, monospace\" font-size=\"14\">\n"
      "<rect width=\"{0:.0f}\" height=\"{1:.0f}\" fill=\"white\"/>\n"
      "<text x=\"{2:.0f}\" y=\"{3:.0f}\" font-size=\"12\" fill=\"{4}\">for {5}: score {6:.3f}; blue speaks for it, "
      "orange against it</text>\n{7}</svg>\n",
      width, height, margin, margin + 8, chart_colour::grey, svg_text(result.label), result.found.score, body);
}

}  // namespace nullscope::cli

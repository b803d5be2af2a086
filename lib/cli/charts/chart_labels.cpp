#include "lib/cli/charts/chart_labels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "lib/cli/charts/svg_text.hpp"

namespace nullscope::cli {
namespace {

constexpr double font_size = 9, character_width = 0.56 * font_size, text_height = 0.8 * font_size;

bool overlap(const label_area& a, const label_area& b) {
  return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
}

bool contains(const label_area& outer, const label_area& inner) {
  return inner.left >= outer.left && inner.right <= outer.right && inner.top >= outer.top &&
         inner.bottom <= outer.bottom;
}

label_area mark_at(const chart_label& label, double radius) {
  return {label.x - radius, label.y - radius, label.x + radius, label.y + radius};
}

}  // namespace

std::string draw_labels(const std::vector<chart_label>& labels, const label_area& area, double mark_radius) {
  std::string result;
  std::vector<label_area> taken;
  for (const chart_label& label : labels) taken.push_back(mark_at(label, mark_radius));
  for (const chart_label& label : labels) {
    const auto characters = std::ranges::count_if(label.text, [](char c) { return (c & 0xC0) != 0x80; });
    const double width = character_width * static_cast<double>(characters), gap = mark_radius + 1;
    const double half = text_height / 2, x = label.x, y = label.y;
    const struct {
      label_area covered;
      double x;
      const char* anchor;
    } places[] = {{{x + gap, y - half, x + gap + width, y + half}, x + gap, "start"},
                  {{x - gap - width, y - half, x - gap, y + half}, x - gap, "end"},
                  {{x - width / 2, y - gap - text_height, x + width / 2, y - gap}, x, "middle"},
                  {{x - width / 2, y + gap, x + width / 2, y + gap + text_height}, x, "middle"}};
    for (const auto& [covered, at, anchor] : places) {
      const auto covers = [&covered = covered](const label_area& other) { return overlap(covered, other); };
      if (!contains(area, covered) || std::ranges::any_of(taken, covers)) continue;
      fmt::format_to(std::back_inserter(result),
                     "<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{}\" text-anchor=\"{}\">{}</text>\n", at,
                     covered.bottom, font_size, anchor, svg_text(label.text));
      taken.push_back(covered);
      break;
    }
  }
  return result;
}

}  // namespace nullscope::cli

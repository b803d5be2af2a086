/// Text inside SVG.
#pragma once

#include <string>

namespace nullscope::cli {

/// With the characters escaped that XML reserves.
inline std::string svg_text(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '"': result += "&quot;"; break;
      default: result += c;
    }
  }
  return result;
}

}  // namespace nullscope::cli

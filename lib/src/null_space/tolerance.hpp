/// Tolerances of ranks: what is allowed, and the default.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <nullscope/errors.hpp>
#include <nullscope/rank_tolerance.hpp>
#include <string_view>

namespace nullscope::detail {

constexpr std::int64_t longest_in_tolerance = 4096;

inline void check_tolerance(std::string_view function, const rank_tolerance& tolerance) {
  if (tolerance.absolute >= 0 && tolerance.relative == tolerance.relative) return;
  throw invalid_argument(fmt::format("{}: tolerances (relative {}, absolute {}) are NaN or negative", function,
                                     tolerance.relative, tolerance.absolute));
}

/// The tolerance for T (tokens x width) with its default filled in: max(min(tokens, 4096), width) * eps.
///
/// The QR of V works on chunks of rows and combines triangles, and rounding errors of many rows are independent: in
/// float they left less than 10 eps of the largest singular value at 131,072 tokens. max(S, d) eps would be 0.125 at a
/// million.
template <class T>
rank_tolerance with_default(const rank_tolerance& tolerance, std::int64_t tokens, std::int64_t width) {
  if (tolerance.relative >= 0) return tolerance;
  const std::int64_t size = std::max(std::min(tokens, longest_in_tolerance), width);
  return {.relative = static_cast<double>(size) * static_cast<double>(std::numeric_limits<T>::epsilon()),
          .absolute = tolerance.absolute};
}

}  // namespace nullscope::detail

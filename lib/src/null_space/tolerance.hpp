/// Tolerances of ranks: what is allowed, and the default.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <nullscope/core/errors.hpp>
#include <nullscope/linalg/svd.hpp>
#include <string_view>

namespace nullscope::detail {

inline void check_tolerance(std::string_view function, const rank_tolerance& tolerance) {
  if (tolerance.absolute >= 0 && tolerance.relative == tolerance.relative) return;
  throw invalid_argument(fmt::format("{}: tolerances (relative {}, absolute {}) are NaN or negative", function,
                                     tolerance.relative, tolerance.absolute));
}

/// The tolerance for T (tokens x width) with its default filled in.
template <class T>
rank_tolerance with_default(const rank_tolerance& tolerance, std::int64_t tokens, std::int64_t width) {
  if (tolerance.relative >= 0) return tolerance;
  constexpr auto epsilon = static_cast<double>(std::numeric_limits<T>::epsilon());
  return {.relative = default_range_tolerance(tokens, width, epsilon), .absolute = tolerance.absolute};
}

}  // namespace nullscope::detail

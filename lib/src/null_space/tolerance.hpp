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

inline void check_tolerance(std::string_view function, const rank_tolerance& tolerance) {
  if (tolerance.absolute >= 0 && tolerance.relative == tolerance.relative) return;
  throw invalid_argument(fmt::format("{}: tolerances (relative {}, absolute {}) are NaN or negative", function,
                                     tolerance.relative, tolerance.absolute));
}

/// The tolerance for matrices of m x n with its default filled in: max(m, n) * eps.
template <class T>
rank_tolerance with_default(const rank_tolerance& tolerance, std::int64_t m, std::int64_t n) {
  if (tolerance.relative >= 0) return tolerance;
  return {.relative = static_cast<double>(std::max(m, n)) * static_cast<double>(std::numeric_limits<T>::epsilon()),
          .absolute = tolerance.absolute};
}

}  // namespace nullscope::detail

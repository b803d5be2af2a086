/// Which singular values count as zero.
#pragma once

#include <algorithm>
#include <cstdint>

namespace nullscope {

/// The numerical rank of an m x n matrix is the number of singular values s_i > max(relative * s_0, absolute).
struct rank_tolerance {
  double relative = -1;  ///< negative: max(m, n) eps, with eps the machine epsilon of the element type
  double absolute = 0;
};

/// What `range_basis` takes by default as the relative tolerance of T (tokens x width). Rounding errors of many rows
/// are independent: beyond 4096 tokens those of singular values do not grow. max(S, d) eps would be 0.125 at a million
/// tokens in float.
inline double default_range_tolerance(std::int64_t tokens, std::int64_t width, double epsilon) {
  constexpr std::int64_t longest = 4096;
  return static_cast<double>(std::max(std::min(tokens, longest), width)) * epsilon;
}

}  // namespace nullscope

/// How the work of a row or a tile is laid on the lanes and work-items of a device; see kernels/simd/team.hpp.
#pragma once

#include <cstdint>
#include <nullscope/core/context.hpp>
#include <sycl/sycl.hpp>

namespace nullscope::detail {

/// A team: the work-items of a work-group and the lanes of each.
struct team_shape {
  int vector_bytes;  ///< of a lane vector: 64, 32; 0: each work-item has one lane
  int items;         ///< 1, 32 or 256
  bool streams;      ///< results are written past the caches, which they would not fit

  bool operator==(const team_shape&) const = default;
};

/// The team for rows of `columns` elements. `neighbours` says that the last stride of all operands is 1.
/// `streamable_bytes` is how much could be written past the caches, and is if the layout's `streams_from`, divided by
/// `eagerness`, is reached: results that the next kernel would not find in the caches anyway.
team_shape choose_team(const lane_layout& layout, std::int64_t columns, bool neighbours,
                       std::int64_t streamable_bytes = 0, std::int64_t eagerness = 1);

/// The team with long vectors, for kernels whose steps wait for one another.
inline team_shape with_long_vectors(team_shape team, const lane_layout& layout) {
  if (team.vector_bytes > 0) team.vector_bytes = static_cast<int>(layout.long_vector_bytes);
  return team;
}

/// Calls call.operator()<W, Items, Streams>() with the lanes and work-items of the team, for numbers of NumberBytes.
template <std::size_t NumberBytes, class Call>
auto with_streaming_team(team_shape team, Call call) {
  if (team.vector_bytes == 64) {
    return team.streams ? call.template operator()<64 / NumberBytes, 1, true>()
                        : call.template operator()<64 / NumberBytes, 1, false>();
  }
  if (team.vector_bytes == 32) {
    return team.streams ? call.template operator()<32 / NumberBytes, 1, true>()
                        : call.template operator()<32 / NumberBytes, 1, false>();
  }
  if (team.items == 1) return call.template operator()<1, 1, false>();
  if (team.items == 32) return call.template operator()<1, 32, false>();
  return call.template operator()<1, 256, false>();
}

/// The same for kernels that never stream: calls call.operator()<W, Items>().
template <std::size_t NumberBytes, class Call>
auto with_team(team_shape team, Call call) {
  team.streams = false;
  return with_streaming_team<NumberBytes>(
      team, [&]<int W, int Items, bool>() { return call.template operator()<W, Items>(); });
}

/// How many rows of `row_bytes` a work-group takes, one after the other: one on a GPU; on a CPU so many that scheduling
/// does not show, and so few that all cores have enough to do.
std::int64_t rows_per_group(const context& ctx, team_shape team, std::int64_t rows, std::int64_t row_bytes);

}  // namespace nullscope::detail

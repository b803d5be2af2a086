/// How the work of a row or a tile is laid on the lanes and work-items of a device; see kernels/team.hpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <nullscope/device.hpp>
#include <nullscope/view.hpp>
#include <optional>
#include <sycl/sycl.hpp>
#include <utility>

namespace nullscope::detail {

enum class team_shape {
  vector_512,     ///< one work-item with lanes of 512 bits: a CPU with AVX-512, elements that are neighbours
  streaming_512,  ///< the same, and results are written past the caches, which they would not fit
  vector_256,     ///< one work-item with lanes of 256 bits: a CPU with registers of no more
  streaming_256,  ///< the same, past the caches
  scalar,         ///< one work-item with one lane: a CPU, elements that are strided
  group_32,       ///< 32 work-items with one lane each: a GPU, short rows
  group_256,      ///< 256 work-items with one lane each: a GPU
};

/// For tests: every team takes this shape from now on, where it can; nothing: by the device again.
void force_team_shape(std::optional<team_shape> shape);

/// The shape for rows of `columns` elements; `neighbours` says that the last stride of all operands is 1, and
/// `streamable_bytes` how much could be written past the caches, and is if it is as much as `streams_from`: results
/// that the next kernel would not find in the caches of its core anyway. (12 MiB of softmax take 0.87 of the time if
/// they are written past the caches, but 1.13 of it with one kernel that reads them.)
team_shape choose_team_shape(const sycl::queue& queue, std::int64_t columns, bool neighbours,
                             std::int64_t streamable_bytes = 0, std::int64_t streams_from = 16 << 20);

/// The shape with packs of 512 bits in the place of those of 256: two registers each, which a kernel may take whose
/// steps wait for one another.
constexpr team_shape with_512_bits(team_shape shape) {
  if (shape == team_shape::vector_256) return team_shape::vector_512;
  return shape == team_shape::streaming_256 ? team_shape::streaming_512 : shape;
}

/// Calls call.operator()<W, Items, Streams>() with the lanes and work-items of the shape, for numbers of NumberBytes.
template <std::size_t NumberBytes, class Call>
sycl::event with_streaming_team(team_shape shape, Call call) {
  switch (shape) {
    case team_shape::vector_512: return call.template operator()<64 / NumberBytes, 1, false>();
    case team_shape::streaming_512: return call.template operator()<64 / NumberBytes, 1, true>();
    case team_shape::vector_256: return call.template operator()<32 / NumberBytes, 1, false>();
    case team_shape::streaming_256: return call.template operator()<32 / NumberBytes, 1, true>();
    case team_shape::scalar: return call.template operator()<1, 1, false>();
    case team_shape::group_32: return call.template operator()<1, 32, false>();
    case team_shape::group_256: break;
  }
  return call.template operator()<1, 256, false>();
}

/// The same for kernels that never stream: calls call.operator()<W, Items>().
template <std::size_t NumberBytes, class Call>
sycl::event with_team(team_shape shape, Call call) {
  return with_streaming_team<NumberBytes>(
      shape, [&]<int W, int Items, bool>() { return call.template operator()<W, Items>(); });
}

/// How many rows of `row_bytes` a work-group takes, one after the other: one on a GPU; on a CPU so many that scheduling
/// does not show, and so few that all cores have enough to do.
std::int64_t rows_per_group(const sycl::queue& queue, team_shape shape, std::int64_t rows, std::int64_t row_bytes);

/// `groups` work-groups of `items` work-items.
inline sycl::nd_range<1> groups_of(std::int64_t groups, std::int64_t items) {
  return {sycl::range<1>(static_cast<std::size_t>(groups * items)), sycl::range<1>(static_cast<std::size_t>(items))};
}

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// The view with dimensions of extent 1 in front, so that it has `To` of them.
template <int To, class T, int From>
view<T, To> with_rank(const view<T, From>& x) {
  static_assert(From <= To);
  view<T, To> result{x.data, {}, {}};
  for (int d = 0; d < To; ++d) {
    const int from = d - (To - From);
    result.extent[d] = from < 0 ? 1 : x.extent[from];
    result.stride[d] = from < 0 ? 0 : x.stride[from];
  }
  return result;
}

/// The last stride is 1, or does not matter.
template <class T, int Rank>
bool has_neighbours(const view<T, Rank>& x) {
  return x.stride[Rank - 1] == 1 || x.extent[Rank - 1] <= 1;
}

/// The bytes of `out` if they can be written past the caches: every row begins at a cache line, and no input is
/// overwritten, as it would still be in the caches. Otherwise 0.
template <class T, int Rank, class... Inputs>
std::int64_t streamable_bytes(const view<T, Rank>& out, const Inputs&... inputs) {
  constexpr std::int64_t line = 64, bytes = sizeof(T);
  bool is_aligned = reinterpret_cast<std::uintptr_t>(out.data) % line == 0;
  for (int d = 0; d < Rank - 1; ++d) is_aligned &= out.extent[d] == 1 || out.stride[d] * bytes % line == 0;
  const bool is_input = ((static_cast<const void*>(inputs.data) == out.data) || ...);
  return is_aligned && !is_input ? out.size() * bytes : 0;
}

}  // namespace nullscope::detail

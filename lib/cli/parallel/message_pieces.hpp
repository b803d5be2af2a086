/// MPI counts in int: longer messages are sent in pieces.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>

namespace nullscope::cli {

/// Far below the largest int, since some implementations fail near it.
inline constexpr std::size_t largest_piece = std::size_t{1} << 30;
static_assert(largest_piece <= static_cast<std::size_t>(std::numeric_limits<int>::max()));

/// Calls piece(begin, count) for consecutive pieces that cover `size` elements, each of 1 to `most` of them.
template <class Piece>
void for_each_piece(std::size_t size, Piece piece, std::size_t most = largest_piece) {
  for (std::size_t begin = 0; begin < size; begin += most) {
    piece(begin, static_cast<int>(std::min(most, size - begin)));
  }
}

}  // namespace nullscope::cli

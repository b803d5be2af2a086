/// Streams of random numbers of a seed; the first ones initialise the parameters.
#pragma once

#include <cstdint>

namespace nullscope::detail {

inline constexpr std::uint64_t split_stream = std::uint64_t{1} << 60;
inline constexpr std::uint64_t order_stream = std::uint64_t{2} << 60;    ///< two per epoch
inline constexpr std::uint64_t dropout_stream = std::uint64_t{3} << 60;  ///< those of a forward pass per step and rank

}  // namespace nullscope::detail

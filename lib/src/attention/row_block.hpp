/// The blocks of queries in which rows of attention are computed.
#pragma once

#include <cstdint>

namespace nullscope::detail {

/// A row has the same bits in every call whose first row is a whole number of blocks away, for heads that are computed
/// one by one.
inline constexpr std::int64_t attention_row_block = 12288;

}  // namespace nullscope::detail

/// How many queries the blocks of kernels have that take blocks of queries by keys.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <nullscope/core/context.hpp>
#include <nullscope/core/errors.hpp>
#include <string_view>

namespace nullscope::detail {

/// Panels of queries in a block: as many as local memory holds, up to what stays in cache. Throws unsupported_device if
/// it does not hold one per worker.
template <class Kernel, class Shape>
std::int64_t panels_of_block(std::string_view function, const context& ctx) {
  const std::int64_t available = ctx.layout().local_bytes;
  std::int64_t panels = std::max(8, Shape::workers);
  while (panels > Shape::workers && Kernel::local_bytes(panels) > available) panels -= Shape::workers;
  if (Kernel::local_bytes(panels) <= available) return panels;
  throw unsupported_device(fmt::format("{}: {} has {} usable bytes of local memory, {} are needed", function,
                                       ctx.device().name, available, Kernel::local_bytes(panels)));
}

}  // namespace nullscope::detail

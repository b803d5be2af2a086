/// How kernels that take blocks of queries by keys choose their shape, and how many queries a block has.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <nullscope/core/context.hpp>
#include <nullscope/core/errors.hpp>
#include <string_view>

#include "lib/src/attention/shapes.hpp"

namespace nullscope::detail {

/// Calls call.operator()<Shape>() with the shape of the kernels of attention's derivatives for the layout; WorkItems is
/// that of GPUs.
template <class T, class WorkItems, class Call>
auto with_derivative_shape(const lane_layout& layout, Call call) {
  return with_vector_bytes(layout, [&]<int Bytes>() {
    if constexpr (Bytes == 0) {
      return call.template operator()<WorkItems>();
    } else {
      return call.template operator()<typename attention_vector_shapes<T, Bytes>::backward>();
    }
  });
}

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

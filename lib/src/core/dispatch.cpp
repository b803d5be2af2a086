#include "lib/src/core/dispatch.hpp"

#include <fmt/format.h>

#include <nullscope/core/errors.hpp>
#include <string>
#include <string_view>

namespace nullscope::detail {
namespace {

constexpr std::string_view compiled_layouts = !has_gpu_layouts ? "vectors of 64 and 32 bytes"
                                              : !has_cpu_layouts
                                                  ? "groups of work-items"
                                                  : "vectors of 64 and 32 bytes, and groups of work-items";

[[noreturn]] void refuse(std::string_view layout) {
  throw unsupported_device(fmt::format(
      "this build has no kernels for {}, only for {}; CMake's NULLSCOPE_LAYOUTS decides", layout, compiled_layouts));
}

}  // namespace

bool is_compiled(const lane_layout& layout) {
  return has_vectors_of(layout.vector_bytes) && has_vectors_of(layout.long_vector_bytes) &&
         (layout.vector_bytes == 0) == (layout.long_vector_bytes == 0);
}

const lane_layout& checked_layout(const lane_layout& layout) {
  if (is_compiled(layout)) return layout;
  const bool is_mixed = layout.long_vector_bytes != layout.vector_bytes;
  refuse(to_string(layout) + (is_mixed ? fmt::format(" with long vectors of {} bytes", layout.long_vector_bytes) : ""));
}

void refuse_vectors(std::int64_t bytes) {
  refuse(bytes == 0 ? std::string("groups of work-items") : fmt::format("vectors of {} bytes", bytes));
}

}  // namespace nullscope::detail

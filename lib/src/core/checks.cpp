#include "lib/src/core/checks.hpp"

#include <utility>
#include <vector>

namespace nullscope::check::detail {

std::string describe(std::string_view name, const any_view& x) {
  return fmt::format("{} ({}) with strides ({})", name, fmt::join(x.extent, ", "), fmt::join(x.stride, ", "));
}

void fail(std::string_view function, std::string_view name, const any_view& x, std::string_view why) {
  throw invalid_argument(fmt::format("{}: {} {}", function, describe(name, x), why));
}

void layout(std::string_view function, std::string_view name, const any_view& x) {
  const auto element = static_cast<std::int64_t>(x.element_bytes);
  std::int64_t bytes = element, last = element;  // the end of the last element, from the first one
  bool is_too_large = false;
  for (const std::int64_t extent : x.extent) {
    if (extent < 0) fail(function, name, x, "has a negative extent");
  }
  for (std::size_t d = 0; d < x.extent.size(); ++d) {
    if (x.stride[d] < 0) fail(function, name, x, "has a negative stride");
    is_too_large |= __builtin_mul_overflow(bytes, x.extent[d], &bytes);
    if (x.extent[d] <= 1) continue;  // its stride does not count
    std::int64_t distance = element;
    is_too_large |= __builtin_mul_overflow(distance, x.stride[d], &distance);
    is_too_large |= __builtin_mul_overflow(distance, x.extent[d] - 1, &distance);
    is_too_large |= __builtin_add_overflow(last, distance, &last);
  }
  if (is_too_large && !x.empty()) fail(function, name, x, "is too large for 64-bit sizes");
}

void distinct(std::string_view function, std::string_view name, const any_view& x) {
  std::vector<std::pair<std::int64_t, std::int64_t>> dimensions;  // (stride, extent), ascending
  for (std::size_t d = 0; d < x.extent.size(); ++d) {
    if (x.extent[d] == 0) return;
    if (x.extent[d] > 1) dimensions.emplace_back(x.stride[d], x.extent[d]);
  }
  std::sort(dimensions.begin(), dimensions.end());
  std::int64_t span = 1;  // elements that the faster dimensions cover
  for (const auto& [stride, extent] : dimensions) {
    if (stride < span) fail(function, name, x, "has strides that overlap");
    span = stride * (extent - 1) + span;
  }
}

void input(std::string_view function, std::string_view name, const any_view& x) {
  layout(function, name, x);
  if (x.data == nullptr && !x.empty()) fail(function, name, x, "has a null pointer");
}

void shape(std::string_view function, std::string_view name, const any_view& x,
           std::span<const std::int64_t> expected) {
  if (std::equal(x.extent.begin(), x.extent.end(), expected.begin(), expected.end())) return;
  fail(function, name, x, fmt::format("should be ({})", fmt::join(expected, ", ")));
}

void differ(std::string_view function, std::string_view name_a, const any_view& a, int dimension_a,
            std::string_view name_b, const any_view& b, int dimension_b) {
  throw invalid_argument(fmt::format("{}: dimension {} of {} differs from dimension {} of {}", function, dimension_a,
                                     describe(name_a, a), dimension_b, describe(name_b, b)));
}

void no_double(std::string_view function, const context& ctx) {
  throw unsupported_device(fmt::format("{}: {} has no 64-bit floating point", function, ctx.device().name));
}

}  // namespace nullscope::check::detail

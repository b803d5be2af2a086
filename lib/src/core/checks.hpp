/// Validation that the functions of the library share. Each check throws before anything is launched, and names the
/// function, the operand and its shape.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nullscope/context.hpp>
#include <nullscope/errors.hpp>
#include <nullscope/view.hpp>
#include <string_view>
#include <type_traits>
#include <vector>

namespace nullscope::check {

/// "a (2, 3, 4) with strides (12, 4, 1)"
template <class T, int Rank>
std::string describe(std::string_view name, const view<T, Rank>& x) {
  return fmt::format("{} ({}) with strides ({})", name, fmt::join(x.extent, ", "), fmt::join(x.stride, ", "));
}

template <class T, int Rank>
[[noreturn]] void fail(std::string_view function, std::string_view name, const view<T, Rank>& x, std::string_view why) {
  throw invalid_argument(fmt::format("{}: {} {}", function, describe(name, x), why));
}

/// Extents and strides are not negative, and 64 bits hold the bytes and the distance of every element.
template <class T, int Rank>
void layout(std::string_view function, std::string_view name, const view<T, Rank>& x) {
  std::int64_t bytes = sizeof(T), last = sizeof(T);  // the end of the last element, from the first one
  bool is_too_large = false;
  for (const std::int64_t extent : x.extent) {
    if (extent < 0) fail(function, name, x, "has a negative extent");
  }
  for (int d = 0; d < Rank; ++d) {
    if (x.stride[d] < 0) fail(function, name, x, "has a negative stride");
    is_too_large |= __builtin_mul_overflow(bytes, x.extent[d], &bytes);
    if (x.extent[d] <= 1) continue;  // its stride does not count
    std::int64_t distance = sizeof(T);
    is_too_large |= __builtin_mul_overflow(distance, x.stride[d], &distance);
    is_too_large |= __builtin_mul_overflow(distance, x.extent[d] - 1, &distance);
    is_too_large |= __builtin_add_overflow(last, distance, &last);
  }
  if (is_too_large && !x.empty()) fail(function, name, x, "is too large for 64-bit sizes");
}

/// No two elements share an address.
template <class T, int Rank>
void distinct(std::string_view function, std::string_view name, const view<T, Rank>& x) {
  std::vector<std::pair<std::int64_t, std::int64_t>> dimensions;  // (stride, extent), ascending
  for (int d = 0; d < Rank; ++d) {
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

/// The layout is possible, and there is memory behind a view that is not empty.
template <class T, int Rank>
void input(std::string_view function, std::string_view name, const view<T, Rank>& x) {
  layout(function, name, x);
  if (x.data == nullptr && !x.empty()) fail(function, name, x, "has a null pointer");
}

/// As for an input, and no two elements share an address.
template <class T, int Rank>
void output(std::string_view function, std::string_view name, const view<T, Rank>& x) {
  static_assert(!std::is_const_v<T>);
  input(function, name, x);
  distinct(function, name, x);
}

/// Two operands agree in one extent each.
template <class A, int RankA, class B, int RankB>
void same_extent(std::string_view function, std::string_view name_a, const view<A, RankA>& a, int dimension_a,
                 std::string_view name_b, const view<B, RankB>& b, int dimension_b) {
  if (a.extent[dimension_a] == b.extent[dimension_b]) return;
  throw invalid_argument(fmt::format("{}: dimension {} of {} differs from dimension {} of {}", function, dimension_a,
                                     describe(name_a, a), dimension_b, describe(name_b, b)));
}

template <class A, class B, int Rank>
void same_shape(std::string_view function, std::string_view name_a, const view<A, Rank>& a, std::string_view name_b,
                const view<B, Rank>& b) {
  for (int d = 0; d < Rank; ++d) same_extent(function, name_a, a, d, name_b, b, d);
}

/// The operand has this shape.
template <class T, int Rank>
void shape(std::string_view function, std::string_view name, const view<T, Rank>& x,
           const std::type_identity_t<std::int64_t> (&expected)[Rank]) {
  if (std::equal(x.extent, x.extent + Rank, expected)) return;
  fail(function, name, x, fmt::format("should be ({})", fmt::join(expected, ", ")));
}

/// A result that may be left out: absent, or an output of this shape.
template <class T, int Rank>
void optional_output(std::string_view function, std::string_view name, const view<T, Rank>& x,
                     const std::type_identity_t<std::int64_t> (&expected)[Rank]) {
  if (x.is_absent()) return;
  output(function, name, x);
  shape(function, name, x, expected);
}

/// An operand that may be left out: absent, or an input of this shape.
template <class T, int Rank>
void optional_input(std::string_view function, std::string_view name, const view<T, Rank>& x,
                    const std::type_identity_t<std::int64_t> (&expected)[Rank]) {
  if (x.is_absent()) return;
  input(function, name, x);
  shape(function, name, x, expected);
}

/// The device computes in T.
template <class T>
void device_type(std::string_view function, const context& ctx) {
  if constexpr (std::is_same_v<T, double>) {
    if (ctx.device().fp64) return;
    throw unsupported_device(fmt::format("{}: {} has no 64-bit floating point", function, ctx.device().name));
  }
}

}  // namespace nullscope::check

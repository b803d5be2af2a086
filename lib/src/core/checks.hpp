/// Validation that the functions of the library share. Each check throws before anything is launched, and names the
/// function, the operand and its shape. What is written here for every type of view only passes its shape on.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nullscope/core/context.hpp>
#include <nullscope/core/errors.hpp>
#include <nullscope/core/view.hpp>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace nullscope::check {

namespace detail {

/// A view of any type and number of dimensions.
struct any_view {
  const void* data;
  std::span<const std::int64_t> extent, stride;
  std::size_t element_bytes;

  bool empty() const { return std::find(extent.begin(), extent.end(), 0) != extent.end(); }
};

template <class T, int Rank>
any_view any(const view<T, Rank>& x) {
  return {x.data, x.extent, x.stride, sizeof(T)};
}

std::string describe(std::string_view name, const any_view& x);
[[noreturn]] void fail(std::string_view function, std::string_view name, const any_view& x, std::string_view why);
void layout(std::string_view function, std::string_view name, const any_view& x);
void distinct(std::string_view function, std::string_view name, const any_view& x);
void input(std::string_view function, std::string_view name, const any_view& x);
void shape(std::string_view function, std::string_view name, const any_view& x, std::span<const std::int64_t> expected);
[[noreturn]] void differ(std::string_view function, std::string_view name_a, const any_view& a, int dimension_a,
                         std::string_view name_b, const any_view& b, int dimension_b);
[[noreturn]] void no_double(std::string_view function, const context& ctx);

}  // namespace detail

/// "a (2, 3, 4) with strides (12, 4, 1)"
template <class T, int Rank>
std::string describe(std::string_view name, const view<T, Rank>& x) {
  return detail::describe(name, detail::any(x));
}

template <class T, int Rank>
[[noreturn]] void fail(std::string_view function, std::string_view name, const view<T, Rank>& x, std::string_view why) {
  detail::fail(function, name, detail::any(x), why);
}

/// Extents and strides are not negative, and 64 bits hold the bytes and the distance of every element.
template <class T, int Rank>
void layout(std::string_view function, std::string_view name, const view<T, Rank>& x) {
  detail::layout(function, name, detail::any(x));
}

/// No two elements share an address.
template <class T, int Rank>
void distinct(std::string_view function, std::string_view name, const view<T, Rank>& x) {
  detail::distinct(function, name, detail::any(x));
}

/// The layout is possible, and there is memory behind a view that is not empty.
template <class T, int Rank>
void input(std::string_view function, std::string_view name, const view<T, Rank>& x) {
  detail::input(function, name, detail::any(x));
}

/// As for an input, and no two elements share an address.
template <class T, int Rank>
void output(std::string_view function, std::string_view name, const view<T, Rank>& x) {
  static_assert(!std::is_const_v<T>);
  detail::input(function, name, detail::any(x));
  detail::distinct(function, name, detail::any(x));
}

/// Two operands agree in one extent each.
template <class A, int RankA, class B, int RankB>
void same_extent(std::string_view function, std::string_view name_a, const view<A, RankA>& a, int dimension_a,
                 std::string_view name_b, const view<B, RankB>& b, int dimension_b) {
  if (a.extent[dimension_a] == b.extent[dimension_b]) return;
  detail::differ(function, name_a, detail::any(a), dimension_a, name_b, detail::any(b), dimension_b);
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
  detail::shape(function, name, detail::any(x), expected);
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
  if (std::is_same_v<T, double> && !ctx.device().fp64) detail::no_double(function, ctx);
}

}  // namespace nullscope::check

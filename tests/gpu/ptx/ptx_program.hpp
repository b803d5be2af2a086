/// Short programs in PTX for the tests: one warp, a few operands per lane.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "tests/gpu/ptx/build.hpp"
#include "tests/gpu/ptx/machine.hpp"

namespace nullscope::ptx {

/// Runs a kernel whose parameters are addresses of 64 bits.
inline counts run_program(const std::string& text, const std::vector<const void*>& addresses,
                          std::uint32_t items = lanes, std::uint32_t groups = 1, std::size_t shared_bytes = 0) {
  const module parsed = parse_module(text);
  std::vector<std::byte> parameters(addresses.size() * 8);
  if (!addresses.empty()) std::memcpy(parameters.data(), addresses.data(), parameters.size());
  return execute(build_kernel(parsed, "test"), parameters, groups, items, shared_bytes);
}

template <class T>
constexpr const char* bits_type() {
  return sizeof(T) == 8 ? "b64" : sizeof(T) == 4 ? "b32" : "b16";
}

/// Declares the operand's register and loads the lane's element into it.
template <class T>
std::string load_operand(int number) {
  return fmt::format(
      ".reg .{0} %{1}; ld.param.u64 %at, [p{2}]; mad.wide.u32 %at, %lane, {3}, %at; ld.global.{0} %{1}, [%at];\n",
      bits_type<T>(), static_cast<char>('a' + number), number + 1, sizeof(T));
}

/// The last value for the lanes that have none.
template <class T>
std::vector<T> for_all_lanes(std::vector<T> values) {
  values.resize(lanes, values.back());
  return values;
}

/// `code` makes %to of %a, %b, ..., whose values of each lane are given; it may use the predicates %p and %q, and
/// %lane.
template <class To, class... From>
std::vector<To> lanes_of(const std::string& code, const std::vector<From>&... operands) {
  std::vector<To> result(lanes);
  std::string text = ".visible .entry test(.param .u64 p0";
  for (std::size_t n = 1; n <= sizeof...(operands); ++n) text += fmt::format(", .param .u64 p{}", n);
  text += ")\n{\n.reg .b64 %at; .reg .b32 %lane; .reg .pred %p, %q;\nmov.u32 %lane, %laneid;\n";
  int number = 0;
  ((text += load_operand<From>(number++)), ...);
  text += fmt::format(
      ".reg .{0} %to; {1}\nld.param.u64 %at, [p0]; mad.wide.u32 %at, %lane, {2}, %at; st.global.{0} [%at], "
      "%to;\nret;\n}}\n",
      bits_type<To>(), code, sizeof(To));
  std::size_t given = 1;
  ((given = std::max(given, operands.size())), ...);
  const std::tuple<std::vector<From>...> all{for_all_lanes(operands)...};
  std::vector<const void*> addresses{result.data()};
  std::apply([&](const auto&... values) { (addresses.push_back(values.data()), ...); }, all);
  run_program(text, addresses);
  result.resize(sizeof...(operands) == 0 ? lanes : given);
  return result;
}

}  // namespace nullscope::ptx

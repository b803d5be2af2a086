/// A kernel: a trivially copyable functor with a name that can be written at namespace scope, in a header of its own.
///
///     template <class T> struct scale {
///       static constexpr const char* source = __FILE__;  // where the run-time compiler finds it
///       static constexpr int sub_group_size = 16;        // optional: asks for this sub-group size; negative: for the
///                                                        // smallest that the device has, from 8 on
///       static constexpr bool one_work_item = true;      // optional: a work-group is always one work-item, so that
///                                                        // compilers need not vectorise across work-items
///       T* x; T factor;                                  // its arguments
///       void operator()(sycl::nd_item<1> item, std::byte* local) const;
///     };
///
///     launch(ctx, {{1024}, {64}}, 0, scale<float>{x, 2});   // operation.hpp
///
/// Ranges have one dimension: on NVIDIA GPUs the second and third end at 65,535 work-groups. Built with
/// NULLSCOPE_SINGLE_SOURCE (DPC++ or AdaptiveCpp), a launch is a `parallel_for`. Otherwise the host program comes from
/// any C++20 compiler, and the kernel's header, which must be known to `add_kernel_headers`, is compiled for the device
/// when it is first launched. For ranges beyond 2^31 ask for item.get_global_linear_id(): AdaptiveCpp has
/// get_global_id(0) in 32 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace nullscope::detail {

constexpr std::size_t local_alignment = 64;  // bytes; a cache line, and the widest vector

/// Local memory as a kernel gets it: the first aligned address.
inline std::byte* align_local(std::byte* memory) {
  return memory + (-reinterpret_cast<std::uintptr_t>(memory) & (local_alignment - 1));
}

template <class Kernel>
constexpr int sub_group_size_of() {
  if constexpr (requires { Kernel::sub_group_size; }) {
    return Kernel::sub_group_size;
  } else {
    return 0;  // whatever the compiler chooses
  }
}

template <class Kernel>
constexpr bool one_work_item_of() {
  if constexpr (requires { Kernel::one_work_item; }) {
    return Kernel::one_work_item;
  } else {
    return false;
  }
}

/// Returns the type's name as the compiler writes it in a function signature: "... Kernel = <name>; ...]".
template <class Kernel>
constexpr std::string_view type_name() {
  const std::string_view signature = __PRETTY_FUNCTION__;
  const std::size_t begin = signature.find("Kernel = ") + 9;
  int depth = 0;
  std::size_t end = begin;
  for (; end < signature.size(); ++end) {
    const char c = signature[end];
    if (depth == 0 && (c == ';' || c == ']')) break;
    if (c == '<' || c == '(' || c == '[') ++depth;
    if (c == '>' || c == ')' || c == ']') --depth;
  }
  return signature.substr(begin, end - begin);
}

constexpr bool can_be_named(std::string_view type) {
  for (const char* unnamed : {"anonymous", "lambda", "unnamed", ")::"}) {
    if (type.find(unnamed) != std::string_view::npos) return false;
  }
  return true;
}

/// What the run-time compiler must know of a kernel.
struct kernel_description {
  std::string_view type_name;
  std::string_view source;  ///< the file that defines it, as __FILE__ gives it
  int sub_group_size;       ///< 0: the compiler's choice; negative: the smallest of the device, from 8 on
  bool one_work_item;
  std::size_t bytes, alignment;  ///< of the functor, as the host compiler lays it out
};

template <class Kernel>
inline constexpr kernel_description description{type_name<Kernel>(),        Kernel::source, sub_group_size_of<Kernel>(),
                                                one_work_item_of<Kernel>(), sizeof(Kernel), alignof(Kernel)};

/// Makes a kernel known to `library_kernels` (warm_up.hpp).
bool list_kernel(const kernel_description& kernel);

/// Lists a kernel when a program that launches it starts.
template <class Kernel>
inline const bool is_listed = list_kernel(description<Kernel>);

template <class Kernel>
constexpr void check_kernel() {
  static_assert(std::is_trivially_copyable_v<Kernel>, "a kernel's bytes are its argument");
  static_assert(can_be_named(type_name<Kernel>()), "a kernel needs a name at namespace scope");
}

}  // namespace nullscope::detail

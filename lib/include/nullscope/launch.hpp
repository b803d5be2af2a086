/// How a kernel functor reaches a device: the only file that knows the tool chain.
///
/// A kernel is a trivially copyable functor with a name that can be written at namespace scope:
///
///   template <class T> struct scale {
///     static constexpr const char* source = "scale.hpp";   // the header that defines it
///     static constexpr int dimensions = 1;
///     static constexpr int sub_group_size = 16;             // optional: asks for this sub-group size
///     static constexpr bool one_work_item = true;           // optional: a work-group is always one work-item, so that
///                                                           // compilers need not vectorise across work-items
///     T* x; T factor;                                       // its arguments
///     void operator()(sycl::nd_item<1> item, std::byte* local) const;
///   };
///
///   launch(queue, {{1024}, {64}}, 0, scale<float>{x, 2});
///
/// Built with NULLSCOPE_SINGLE_SOURCE (DPC++ or AdaptiveCpp), `launch` is a `parallel_for`. Otherwise the host program
/// comes from any C++20 compiler, and the kernel's header, which must be known to `add_kernel_headers`, is compiled for
/// the device when it is first launched. For ranges beyond 2^31 ask for item.get_global_linear_id(): AdaptiveCpp has
/// get_global_id(0) in 32 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <sycl/sycl.hpp>
#include <type_traits>
#include <vector>

namespace nullscope {

/// A header that kernels include, as text.
struct kernel_header {
  std::string name;  ///< as in the `#include`
  std::string text;
};

/// Makes headers known to the run-time compiler, beside those of the library. A name that is known already is replaced.
/// Does nothing in a single-source build.
void add_kernel_headers(const std::vector<kernel_header>& headers);

namespace detail {

constexpr std::size_t local_alignment = 64;  // bytes; a cache line, and the widest vector

/// Local memory as a kernel gets it: the first aligned address; `allocated_local_bytes` are there.
inline std::byte* align_local(std::byte* memory) {
  return memory + (-reinterpret_cast<std::uintptr_t>(memory) & (local_alignment - 1));
}

/// Bytes to allocate for `local_bytes` that will be aligned. Throws unsupported_device if the device has not so many.
std::size_t allocated_local_bytes(const sycl::queue& queue, std::size_t local_bytes);

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
  std::string_view source;
  int dimensions;
  int sub_group_size;
  bool one_work_item;
};

template <class Kernel>
inline constexpr kernel_description description{type_name<Kernel>(), Kernel::source, Kernel::dimensions,
                                                sub_group_size_of<Kernel>(), one_work_item_of<Kernel>()};

/// The compiled kernel for the queue's context and device. Compiles it once, whatever the number of threads that ask.
sycl::kernel compiled_kernel(const sycl::queue& queue, const kernel_description& kernel);

/// Compiles the kernels that are not compiled yet, several at a time.
void compile_kernels(const sycl::queue& queue, const std::vector<const kernel_description*>& kernels);

template <class Kernel>
constexpr void check_kernel() {
  static_assert(std::is_trivially_copyable_v<Kernel>, "a kernel's bytes are its argument");
  static_assert(can_be_named(type_name<Kernel>()), "a kernel needs a name at namespace scope");
}

}  // namespace detail

/// An event that is complete when `dependencies` are: what a function returns that has nothing to launch.
inline sycl::event join(sycl::queue& queue, const std::vector<sycl::event>& dependencies) {
#ifdef NULLSCOPE_SINGLE_SOURCE
  return queue.submit([&](sycl::handler& handler) {
    handler.depends_on(dependencies);
    handler.single_task([] {});
  });
#else
  return queue.submit([&](sycl::handler& handler) {
    handler.depends_on(dependencies);
    if (queue.is_in_order()) {
      handler.ext_oneapi_barrier();
    } else {  // where a barrier would wait for the whole queue, and one with a list takes no events of other contexts
      handler.host_task([] {});
    }
  });
#endif
}

/// Runs `kernel` over `range` with `local_bytes` of local memory, aligned to 64 bytes, for each work-group. An empty
/// range runs nothing. Throws compilation_error if the kernel does not compile, unsupported_device if the device has
/// less local memory.
template <class Kernel>
sycl::event launch(sycl::queue& queue, const sycl::nd_range<Kernel::dimensions>& range, std::size_t local_bytes,
                   const Kernel& kernel, const std::vector<sycl::event>& dependencies = {}) {
  detail::check_kernel<Kernel>();
  if (range.get_global_range().size() == 0) return join(queue, dependencies);
  const std::size_t allocated = detail::allocated_local_bytes(queue, local_bytes);
#ifdef NULLSCOPE_SINGLE_SOURCE
  return queue.submit([&](sycl::handler& handler) {
    handler.depends_on(dependencies);
    sycl::local_accessor<std::byte, 1> local(allocated, handler);
    constexpr int sub_group = detail::sub_group_size_of<Kernel>();
    if constexpr (sub_group > 0) {
      handler.parallel_for(range, [=](sycl::nd_item<Kernel::dimensions> item) [[sycl::reqd_sub_group_size(sub_group)]] {
        kernel(item, detail::align_local(&local[0]));
      });
    } else {
      handler.parallel_for(
          range, [=](sycl::nd_item<Kernel::dimensions> item) { kernel(item, detail::align_local(&local[0])); });
    }
  });
#else
  const sycl::kernel code = detail::compiled_kernel(queue, detail::description<Kernel>);
  return queue.submit([&](sycl::handler& handler) {
    handler.depends_on(dependencies);
    sycl::local_accessor<std::byte, 1> local(allocated, handler);
    handler.set_arg(0, kernel);
    handler.set_arg(1, local);
    handler.parallel_for(range, code);
  });
#endif
}

/// Compiles the kernels in parallel, so that their first launch does not wait. Does nothing in a single-source build.
template <class... Kernels>
void warm_up([[maybe_unused]] const sycl::queue& queue) {
  (detail::check_kernel<Kernels>(), ...);
#ifndef NULLSCOPE_SINGLE_SOURCE
  detail::compile_kernels(queue, {&detail::description<Kernels>...});
#endif
}

}  // namespace nullscope

/// How a kernel functor reaches a device.
///
/// A kernel is a trivially copyable functor with a name that can be written at namespace scope, in a header of its own:
///
///     template <class T> struct scale {
///       static constexpr const char* source = __FILE__;       // where the run-time compiler finds it
///       static constexpr int dimensions = 1;                  // always: y and z end at 65,535 on CUDA
///       static constexpr int sub_group_size = 16;             // optional: asks for this sub-group size; negative: for
///                                                             // the smallest that the device has, from 8 on
///       static constexpr bool one_work_item = true;           // optional: a work-group is always one work-item, so
///       that
///                                                             // compilers need not vectorise across work-items
///       T* x; T factor;                                       // its arguments
///       void operator()(sycl::nd_item<1> item, std::byte* local) const;
///     };
///
///     launch(ctx, {{1024}, {64}}, 0, scale<float>{x, 2});
///
/// Built with NULLSCOPE_SINGLE_SOURCE (DPC++ or AdaptiveCpp), a launch is a `parallel_for`. Otherwise the host program
/// comes from any C++20 compiler, and the kernel's header, which must be known to `add_kernel_headers`, is compiled for
/// the device when it is first launched. For ranges beyond 2^31 ask for item.get_global_linear_id(): AdaptiveCpp has
/// get_global_id(0) in 32 bits.
#pragma once

#include <cstddef>
#include <nullscope/context.hpp>
#include <nullscope/kernel.hpp>
#include <nullscope/operation.hpp>
#include <string>
#include <sycl/sycl.hpp>
#include <vector>

namespace nullscope {

/// A header that kernels include, as text.
struct kernel_header {
  std::string name;  ///< as in the `#include`; the path of the file ends with it
  std::string text;
};

/// Makes headers known to the run-time compiler. They stand beside the library's own, which nobody can replace. Throws
/// invalid_argument if a name is known with another text. Does nothing in a single-source build.
void add_kernel_headers(const std::vector<kernel_header>& headers);

/// Runs `kernel` over `range` with `local_bytes` of local memory, aligned to 64 bytes, for each work-group. An empty
/// range runs nothing. Throws compilation_error if the kernel does not compile, unsupported_device if the device has
/// less local memory.
template <class Kernel>
sycl::event launch(context& ctx, const sycl::nd_range<1>& range, std::size_t local_bytes, const Kernel& kernel,
                   const events& dependencies = {}) {
  operation op(ctx, "launch", dependencies);
  op.launch(range, local_bytes, kernel);
  return op.submit();
}

namespace detail {

/// Compiles the kernels that are not compiled yet, several at a time.
void compile_kernels(const sycl::queue& queue, const std::vector<const kernel_description*>& kernels);

}  // namespace detail

/// Compiles these kernels, so that their first launch does not wait. Does nothing in a single-source build.
template <class... Kernels>
void warm_up(context& ctx) {
  (detail::check_kernel<Kernels>(), ...);
  detail::compile_kernels(ctx.queue(), {&detail::description<Kernels>...});
}

/// Compiles all kernels that a pipeline launches, found by a dry run.
template <class Pipeline>
void warm_up(context& ctx, Pipeline&& pipeline) {
  detail::compile_kernels(ctx.queue(), dry_run(ctx, std::forward<Pipeline>(pipeline)).kernels);
}

}  // namespace nullscope

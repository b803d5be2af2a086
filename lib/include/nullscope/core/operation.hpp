/// A sequence of kernel launches that behaves as one call: how every function of the library is written, and how you
/// write your own.
///
///   sycl::event my_function(context& ctx, view<const float, 2> x, view<float, 1> out, const events& dependencies) {
///     operation op(ctx, "my_function", dependencies);
///     const auto sums = op.take_array<float>(x.extent[0], 64);      // workspace, until the end of the operation
///     op.launch(range, 0, my_kernel<float>{x, sums});
///     row_reduce(ctx, sums, out, row_reduction::sum);               // joins the operation
///     return op.submit();
///   }
///
/// Nothing runs before `submit`, so that an error on the way leaves everything as it was. `submit` compiles all kernels
/// that are not compiled yet, then launches.
///
/// An operation that begins while another one of the same context is open becomes a part of it. Its steps follow those
/// before them; they are launched, and have an event, when the outermost operation is submitted. Until then
/// - the event of such a call is a placeholder: as a dependency of a later call in the same operation it adds nothing;
///   any other call refuses it with invalid_argument. Wait for the event of the outermost operation. (SYCL has no event
///   that refuses to be waited for: a placeholder seems complete.)
/// - tensor::to_host throws invalid_argument, in the thread of the operation, for memory that its kernels can reach.
/// An object that keeps the event of its last call asks for it with `when_submitted`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <nullscope/core/context.hpp>
#include <nullscope/core/kernel.hpp>
#include <nullscope/core/view.hpp>
#include <span>
#include <string>
#include <string_view>
#include <sycl/sycl.hpp>
#include <vector>

namespace nullscope {

using events = std::vector<sycl::event>;

namespace detail {

/// What a step needs to launch a kernel that was compiled at run time.
struct kernel_call {
  const sycl::kernel* code = nullptr;
  std::span<const std::byte> functor = {};
  const std::byte* functor_on_device = nullptr;  ///< null where kernels get their functors by value
};

}  // namespace detail

/// When a step of an operation runs.
enum class step_order {
  next,   ///< after all steps before it
  beside  ///< after what the step before it waits for, so that both may run at the same time
};

class operation {
 public:
  /// `name` stands in error messages; it must outlive the operation.
  operation(context& ctx, std::string_view name, const events& dependencies = {});
  ~operation();
  operation(const operation&) = delete;
  operation& operator=(const operation&) = delete;

  context& ctx() { return ctx_; }

  /// Device memory with no defined content, aligned to 64 bytes, for the steps of this operation. Must not be read or
  /// written on the host. Throws invalid_argument on a size that 64 bits do not hold, device_bad_alloc.
  template <class T>
  T* take(std::int64_t count) {
    return static_cast<T*>(take_bytes(count, sizeof(T), memory_kind::device));
  }

  /// The same as a densely packed array.
  template <class T, class... Extent>
  auto take_array(Extent... extents) {
    auto result = contiguous<T>(nullptr, extents...);
    result.data = take<T>(checked_size(result.extent, result.extent + sizeof...(Extent)));
    return result;
  }

  /// Memory that host tasks and kernels both reach.
  template <class T>
  T* take_host(std::int64_t count) {
    return static_cast<T*>(take_bytes(count, sizeof(T), memory_kind::host));
  }

  /// A launch of `kernel` over `range` with `local_bytes` of local memory, aligned to 64 bytes, per work-group. An
  /// empty range launches nothing. Throws unsupported_device if the device has less local memory.
  template <class Kernel>
  void launch(const sycl::nd_range<1>& range, std::size_t local_bytes, const Kernel& kernel,
              step_order order = step_order::next);

  /// Anything else that becomes an event: a memcpy, a vendor library, a host task.
  using command = std::function<sycl::event(sycl::queue&, const events& dependencies)>;
  void run(command step, step_order order = step_order::next);

  /// Launches everything, in order, which ends the outermost operation: later calls are none of its. Returns an event
  /// that is complete when all steps are; inside another operation, a placeholder.
  sycl::event submit();

  /// Calls `keep` with the event of the outermost operation as soon as that is submitted; never, if it is abandoned.
  void when_submitted(std::function<void(const sycl::event&)> keep);

  /// The same as submit, and waits. Throws invalid_argument inside another operation or a dry run, where nothing runs
  /// yet.
  void submit_and_wait();

 private:
  enum class memory_kind { device, host };
  using kernel_command = std::function<sycl::event(sycl::queue&, const detail::kernel_call&, const events&)>;

  void close();
  void* take_bytes(std::int64_t count, std::size_t element_bytes, memory_kind kind);
  std::int64_t checked_size(const std::int64_t* begin, const std::int64_t* end) const;
  std::size_t allocated_local_bytes(std::size_t local_bytes) const;
  void add(const detail::kernel_description* kernel, kernel_command step, step_order order,
           std::span<const std::byte> functor = {});

  /// A launch of a kernel that is known by its description and its bytes: compiled once, not for every kernel.
  void launch_bytes(const detail::kernel_description* kernel, const sycl::nd_range<1>& range, std::size_t local_bytes,
                    std::span<const std::byte> functor, step_order order);

  context& ctx_;
  std::string_view name_;
  bool is_outermost_, is_submitted_ = false, is_open_ = true;
  bool begins_stage_ = true;               // the next step waits for all before it, whatever its order
  std::size_t first_step_, first_keeper_;  // of this operation
  std::size_t device_mark_, host_mark_;    // what was taken from the workspace when the operation began
};

template <class Kernel>
void operation::launch(const sycl::nd_range<1>& range, std::size_t local_bytes, const Kernel& kernel,
                       step_order order) {
  detail::check_kernel<Kernel>();
  if (range.get_global_range().size() == 0) {
    begins_stage_ |= order == step_order::next;  // a step beside this one still comes after all before
    return;
  }
#ifdef NULLSCOPE_SINGLE_SOURCE
  const std::size_t allocated = allocated_local_bytes(local_bytes);
  add(
      &detail::description<Kernel>,
      [=](sycl::queue& queue, const detail::kernel_call&, const events& dependencies) {
        return queue.submit([&](sycl::handler& handler) {
          handler.depends_on(dependencies);
          sycl::local_accessor<std::byte, 1> local(allocated, handler);
          constexpr int sub_group = detail::sub_group_size_of<Kernel>();
          if constexpr (sub_group > 0) {
            handler.parallel_for(range, [=](sycl::nd_item<1> item) [[sycl::reqd_sub_group_size(sub_group)]] {
              kernel(item, detail::align_local(&local[0]));
            });
          } else {
            handler.parallel_for(range, [=](sycl::nd_item<1> item) { kernel(item, detail::align_local(&local[0])); });
          }
        });
      },
      order);
#else
  [[maybe_unused]] const bool& listed = detail::is_listed<Kernel>;
  launch_bytes(&detail::description<Kernel>, range, local_bytes, std::as_bytes(std::span(&kernel, 1)), order);
#endif
}

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

/// What a lane is on a device: how kernels spread their work. A context chooses the layout once, by its device; tests
/// pass others, so that the layouts of GPUs run on a CPU too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nullscope/core/device.hpp>
#include <span>
#include <string>
#include <string_view>
#include <sycl/sycl.hpp>
#include <utility>
#include <vector>

namespace nullscope {

/// The CPU or GPU mapping, vector width and group size. On a CPU a work-group is one work-item, whose lanes are the
/// elements of a vector register. On a GPU a lane is a work-item, and a group of them shares a row, tile or matrix.
struct lane_layout {
  std::int64_t vector_bytes = 0;       ///< 32 or 64; 0: a lane is a work-item
  std::int64_t long_vector_bytes = 0;  ///< of kernels whose steps wait for one another: may be two registers; 32 or 64
  std::int64_t group_items = 256;      ///< work-items of the largest group; 1 with vectors
  std::int64_t short_row = 1024;       ///< rows of up to so many elements get a group of at most 32 work-items
  std::int64_t local_bytes = 0;        ///< local memory that one work-group may use
  std::int64_t streams_from = 16 << 20;  ///< CPUs: results of so many bytes are written past the caches
  bool matrix_engine = true;             ///< bfloat16 may take the device's matrix engine, if it has one

  bool has_vectors() const { return vector_bytes > 0; }
  bool operator==(const lane_layout&) const = default;

  /// The layout for a device: vectors on a CPU, work-items on everything else.
  static lane_layout of(const device_properties& device);

  /// For tests: vectors of 32 or 64 bytes, or groups of work-items, with the local memory of this device.
  static lane_layout vectors(const device_properties& device, std::int64_t bytes);
  static lane_layout work_items(const device_properties& device, std::int64_t group_items = 256);
};

/// "vectors of 64 bytes", "groups of 256 work-items"
std::string to_string(const lane_layout& layout);

// The handle that every function of the library takes first. It wraps a SYCL queue and caches device properties, the
// layout of the kernels, compiled kernels and scratch memory.
//
//   nullscope::context ctx(select_device("gpu"));
//   attention(ctx, {q, k, v}, {.out = out, .log_sum_exp = lse}, {.causal = true}, {ready});
//
// Every function takes, in this order: context, operands, results, options, dependencies. It returns at once with an
// event. Functions on owning `tensor`s allocate their results and wait.
//
// Threads. A context belongs to one thread at a time. Different contexts may be used concurrently, also on one queue.
//
// Order. Calls that share a context's workspace run one after the other, on out-of-order queues too. Data dependencies
// between calls are the caller's: an in-order queue, or events.
//
// Determinism. The same input on the same device with the same layout gives the same bits, run after run.
//
// Errors. A function checks every operand, reserves its workspace and compiles its kernels before its first launch. If
// it throws, nothing has been overwritten and nothing is running: invalid_argument, unsupported_device,
// device_bad_alloc, compilation_error. If the runtime itself fails between two launches, the function waits for what
// runs before it throws; results are then undefined. NaN and infinity in the input are no errors: functions say what
// they give, and those that can fail on a matrix have a status per matrix.

class operation;

namespace detail {
struct context_access;
struct context_state;
struct kernel_description;
}  // namespace detail

/// What a pipeline needs, found by a dry run.
struct pipeline_needs {
  std::int64_t workspace_bytes = 0;                             ///< for `use_workspace`
  std::int64_t launches = 0;                                    ///< of kernels, and calls of vendor libraries
  std::vector<const detail::kernel_description*> kernels = {};  ///< each once, in the order of their first launch
};

class context {
 public:
  /// For a queue of the caller's; a copy of it is kept.
  explicit context(sycl::queue queue);

  /// With another layout than the device's own; for tests.
  context(sycl::queue queue, const lane_layout& layout);

  /// With an in-order queue of its own, whose asynchronous errors are thrown by wait_and_throw.
  explicit context(const sycl::device& device);

  context(context&&) noexcept;
  context& operator=(context&&) noexcept;
  ~context();  ///< waits for the calls that use the workspace

  sycl::queue& queue();
  const sycl::queue& queue() const;
  const device_properties& device() const;
  const lane_layout& layout() const;

  /// Temporary memory comes from here from now on, until it is given an empty span: USM device memory of the caller's,
  /// which must outlive the calls. A call that needs more throws invalid_argument, saying how many bytes. Without it,
  /// the context allocates, and grows on demand.
  void use_workspace(std::span<std::byte> memory);

  /// Bytes that the context has allocated for itself.
  std::int64_t workspace_bytes() const;

  /// Frees what the context has allocated. Waits for the calls that use it.
  void release_workspace();

 private:
  friend class operation;
  friend detail::context_access;
  template <class Pipeline>
  friend pipeline_needs dry_run(context& ctx, Pipeline&& pipeline);

  void begin_dry_run();
  pipeline_needs end_dry_run();

  std::unique_ptr<detail::context_state> state_;
};

/// Runs `pipeline(ctx)` without launching anything: its calls check their operands and count. Functions that wait for a
/// result (those on tensors) cannot be part of it.
template <class Pipeline>
pipeline_needs dry_run(context& ctx, Pipeline&& pipeline) {
  ctx.begin_dry_run();
  try {
    std::forward<Pipeline>(pipeline)(ctx);
  } catch (...) {
    ctx.end_dry_run();
    throw;
  }
  return ctx.end_dry_run();
}

/// The bytes of workspace that `pipeline(ctx)` needs for all of its calls.
template <class Pipeline>
std::int64_t required_workspace(context& ctx, Pipeline&& pipeline) {
  return dry_run(ctx, std::forward<Pipeline>(pipeline)).workspace_bytes;
}

}  // namespace nullscope

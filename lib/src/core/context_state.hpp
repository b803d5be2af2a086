/// What a context holds: its queue, the layout, compiled kernels, workspaces, and the operation that is open.
#pragma once

#include <cstdint>
#include <functional>
#include <nullscope/core/context.hpp>
#include <nullscope/core/kernel.hpp>
#include <nullscope/core/operation.hpp>
#include <optional>
#include <string_view>
#include <sycl/sycl.hpp>
#include <unordered_map>
#include <vector>

#include "lib/src/core/kernel_arguments.hpp"
#include "lib/src/core/kernel_runner.hpp"
#include "lib/src/core/workspace.hpp"

namespace nullscope::detail {

/// A step of an operation, not launched yet. `kernel` is null for commands that are no kernel of ours.
struct recorded_step {
  const kernel_description* kernel;
  std::function<sycl::event(sycl::queue&, const kernel_call&, const events&)> command;
  step_order order;
  std::vector<std::byte> functor;  // of a kernel that is compiled at run time
};

struct context_state {
  context_state(sycl::queue of, const lane_layout& chosen)
      : queue(std::move(of)),
        device(&properties(queue.get_device())),
        layout(chosen),
        is_in_order(queue.is_in_order()),
        device_memory(block_source::of_device(queue, sycl::usm::alloc::device)),
        host_memory(block_source::of_device(queue, sycl::usm::alloc::host)) {
#ifndef NULLSCOPE_SINGLE_SOURCE
    if (passes_address(queue.get_device())) arguments.emplace(queue);
#endif
  }
  ~context_state() {
    try {
      last_use.wait();
    } catch (const sycl::exception&) {  // its event tells the caller
    }
  }
  context_state(const context_state&) = delete;
  context_state& operator=(const context_state&) = delete;

  sycl::queue queue;
  const device_properties* device;  // the queue's, or what a runner stands for
  lane_layout layout;
  bool is_in_order;

  workspace device_memory, host_memory;
  sycl::event last_use;  // of the workspaces; of anything, if the queue is in order

  std::unordered_map<const kernel_description*, sycl::kernel> kernels;
  kernel_runner* runner = nullptr;  // runs the kernels in the place of the device; for tests
#ifndef NULLSCOPE_SINGLE_SOURCE
  std::optional<kernel_arguments> arguments;  // absent where kernels get their functors by value
#endif

  // The open operation.
  bool is_recording = false;
  std::string_view name;
  std::vector<recorded_step> steps;
  events dependencies;
  std::vector<std::function<void(const sycl::event&)>> keepers;  // of the operation's event

  // A dry run.
  bool is_dry = false;
  pipeline_needs needs;
};

/// Throws invalid_argument if this thread has an operation open whose kernels can reach memory of this SYCL context:
/// they have not run yet, so that what is read there would be old.
void check_no_open_operation(const sycl::context& memory);

/// The compiled kernels for the queue's context and device, each compiled once whatever the number of threads that ask.
std::vector<sycl::kernel> compiled_kernels(const sycl::queue& queue,
                                           const std::vector<const kernel_description*>& kernels);

}  // namespace nullscope::detail

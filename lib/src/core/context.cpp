#include <nullscope/core/context.hpp>
#include <utility>

#include "lib/src/core/context_state.hpp"
#include "lib/src/core/dispatch.hpp"

namespace nullscope {
namespace {

/// Errors that no call returned: thrown again where somebody waits.
void rethrow_first(const sycl::exception_list& errors) {
  for (const std::exception_ptr& error : errors) std::rethrow_exception(error);
}

}  // namespace

context::context(sycl::queue queue) : context(queue, lane_layout::of(properties(queue.get_device()))) {}

context::context(sycl::queue queue, const lane_layout& layout)
    : state_(std::make_unique<detail::context_state>(std::move(queue), detail::checked_layout(layout))) {}

context::context(const sycl::device& device)
    : context(sycl::queue(device, rethrow_first, sycl::property::queue::in_order{})) {}

context::context(context&&) noexcept = default;
context& context::operator=(context&&) noexcept = default;

context::~context() = default;

sycl::queue& context::queue() { return state_->queue; }
const sycl::queue& context::queue() const { return state_->queue; }
const device_properties& context::device() const { return *state_->device; }
const lane_layout& context::layout() const { return state_->layout; }

void context::use_workspace(std::span<std::byte> memory) { state_->device_memory.use(memory); }

std::int64_t context::workspace_bytes() const {
  return state_->device_memory.allocated_bytes() + state_->host_memory.allocated_bytes();
}

void context::release_workspace() {
  state_->last_use.wait();
  state_->device_memory.free_blocks();
  state_->host_memory.free_blocks();
}

/// The way to the state for what is no part of the public interface.
struct detail::context_access {
  static context_state& state(const context& ctx) { return *ctx.state_; }
};

void detail::run_kernels_by(context& ctx, kernel_runner& runner) {
  context_state& state = context_access::state(ctx);
  state.runner = &runner;
  state.device = &runner.device();
}

context detail::sibling_of(const context& ctx) {
  const sycl::queue queue(ctx.queue().get_device(), rethrow_first, sycl::property::queue::in_order{});
  context result(queue, lane_layout::of(ctx.device()));
  kernel_runner* const runner = context_access::state(ctx).runner;
  if (runner != nullptr) run_kernels_by(result, *runner);
  return result;
}

void context::begin_dry_run() {
  state_->is_dry = true;
  state_->needs = {};
  state_->device_memory.count_only(true);
  state_->host_memory.count_only(true);
}

pipeline_needs context::end_dry_run() {
  state_->is_dry = false;
  state_->device_memory.count_only(false);
  state_->host_memory.count_only(false);
  return std::exchange(state_->needs, {});
}

}  // namespace nullscope

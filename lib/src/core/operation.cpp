#include <nullscope/core/operation.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <nullscope/core/errors.hpp>
#include <utility>

#include "lib/src/core/context_state.hpp"

namespace nullscope {
namespace {

/// An event that is complete when `dependencies` are, for a call that has nothing to launch, or whose last steps run
/// beside each other.
sycl::event join(sycl::queue& queue, const events& dependencies) {
  return queue.submit([&](sycl::handler& handler) {
    handler.depends_on(dependencies);
#ifdef NULLSCOPE_SINGLE_SOURCE
    handler.single_task([] {});
#else
    if (queue.is_in_order()) {
      handler.ext_oneapi_barrier();
    } else {  // where a barrier would wait for the whole queue, and one with a list takes no events of other contexts
      handler.host_task([] {});
    }
#endif
  });
}

/// What a call inside another operation returns: never the event of a command.
const sycl::event& placeholder() {
  static const auto* const event = new sycl::event;  // never destroyed, like the runtime's own objects
  return *event;
}

/// False for runtimes in which every event without a command is the same: nothing can be told from it there.
bool is_placeholder(const sycl::event& event) {
  static const bool is_distinct = placeholder() != sycl::event();
  return is_distinct && event == placeholder();
}

/// The outermost operations that are open in this thread.
std::vector<const detail::context_state*>& open_in_this_thread() {
  thread_local std::vector<const detail::context_state*> open;
  return open;
}

/// A step of an operation that has been submitted would run with whatever operation comes next, or never.
void check_open(bool is_open, std::string_view name) {
  if (!is_open) throw invalid_argument(fmt::format("{}: the operation has been submitted", name));
}

/// Makes sure that the context has all kernels of its steps.
void compile_steps([[maybe_unused]] detail::context_state& state) {
#ifndef NULLSCOPE_SINGLE_SOURCE
  if (state.runner != nullptr) return;
  std::vector<const detail::kernel_description*> missing;
  for (const detail::recorded_step& step : state.steps) {
    if (step.kernel == nullptr || state.kernels.contains(step.kernel)) continue;
    if (std::find(missing.begin(), missing.end(), step.kernel) == missing.end()) missing.push_back(step.kernel);
  }
  if (missing.empty()) return;
  const std::vector<sycl::kernel> compiled = detail::compiled_kernels(state.queue, missing);
  for (std::size_t i = 0; i < missing.size(); ++i) state.kernels.emplace(missing[i], compiled[i]);
#endif
}

/// What a dry run learns from an operation.
void note_needs(detail::context_state& state) {
  pipeline_needs& needs = state.needs;
  needs.workspace_bytes = std::max(needs.workspace_bytes, state.device_memory.peak_bytes());
  needs.launches += std::ssize(state.steps);
  for (const detail::recorded_step& step : state.steps) {
    if (step.kernel == nullptr) continue;
    if (std::find(needs.kernels.begin(), needs.kernels.end(), step.kernel) == needs.kernels.end()) {
      needs.kernels.push_back(step.kernel);
    }
  }
}

/// The functors of an operation's kernels, on the device where kernels get their addresses.
class sent_calls {
 public:
#ifdef NULLSCOPE_SINGLE_SOURCE
  explicit sent_calls(detail::context_state&) {}
  void add_dependency(events&) const {}
  void use_until(detail::context_state&, const sycl::event&) const {}
  detail::kernel_call next(detail::context_state&, const detail::recorded_step&) { return {}; }
#else
  explicit sent_calls(detail::context_state& state) {
    if (!state.arguments || state.runner != nullptr) return;
    std::vector<std::span<const std::byte> > functors;
    for (const detail::recorded_step& step : state.steps) {
      if (step.kernel != nullptr) functors.emplace_back(step.functor);
    }
    if (!functors.empty()) sent_ = state.arguments->send(functors);
  }
  void add_dependency(events& waits_for) const {
    waits_for.insert(waits_for.end(), sent_.copied.begin(), sent_.copied.end());
  }
  void use_until(detail::context_state& state, const sycl::event& last) const {
    if (!sent_.addresses.empty()) state.arguments->use_until(sent_.block, last);
  }
  detail::kernel_call next(detail::context_state& state, const detail::recorded_step& step) {
    if (step.kernel == nullptr || state.runner != nullptr) return {};
    return {&state.kernels.at(step.kernel), step.functor, sent_.addresses.empty() ? nullptr : sent_.addresses[next_++]};
  }

 private:
  detail::kernel_arguments::sent_functors sent_;
  std::size_t next_ = 0;
#endif
};

/// Launches the steps. Each waits for the steps before it, or, if it runs beside the one before, for what that waits
/// for. An in-order queue implies this for kernels. Work on the host names what it waits for all the same: otherwise
/// the kernels before it run without the thread that waits for them (docs/tuning.md).
sycl::event submit_steps(detail::context_state& state) {
  sent_calls calls(state);
  events waits_for = state.dependencies, running;
  calls.add_dependency(waits_for);
  const bool uses_workspace = state.device_memory.was_used() || state.host_memory.was_used();
  const bool begins_on_host = !state.steps.empty() && state.steps.front().kernel == nullptr;
  if (state.is_in_order ? begins_on_host : uses_workspace) waits_for.push_back(state.last_use);
  bool is_first = true;
  try {
    for (const detail::recorded_step& step : state.steps) {
      if (step.order == step_order::next && !running.empty()) {
        std::swap(waits_for, running);
        running.clear();
        is_first = false;
      }
      const bool is_implied = state.is_in_order && !is_first && step.kernel != nullptr;
      running.push_back(step.command(state.queue, calls.next(state, step), is_implied ? events{} : waits_for));
    }
    sycl::event last = running.size() == 1 || (state.is_in_order && !running.empty())
                           ? running.back()
                           : join(state.queue, running.empty() ? waits_for : running);
    if (uses_workspace || state.is_in_order) state.last_use = last;
    calls.use_until(state, last);
    return last;
  } catch (...) {  // what runs already may use the workspace and the operands
    try {
      state.queue.wait();
    } catch (const sycl::exception&) {  // the first error counts
    }
    throw;
  }
}

#ifndef NULLSCOPE_SINGLE_SOURCE
auto kernel_step(const sycl::nd_range<1>& range, std::size_t local_bytes) {
  return [range, local_bytes](sycl::queue& queue, const detail::kernel_call& call, const events& dependencies) {
    return queue.submit([&](sycl::handler& handler) {
      namespace ext = sycl::ext::oneapi::experimental;
      handler.depends_on(dependencies);
      if (call.functor_on_device != nullptr) {
        handler.set_arg(0, call.functor_on_device);
      } else {
        handler.set_arg(0, ext::raw_kernel_arg(call.functor.data(), call.functor.size()));
      }
      ext::work_group_memory<std::byte[]> local(local_bytes, handler);
      handler.set_arg(1, local);
      handler.parallel_for(range, *call.code);
    });
  };
}

/// A launch by `runner`, when all before it is complete. A default event is complete too.
auto runner_step(detail::kernel_runner& runner, const detail::kernel_description& kernel,
                 const sycl::nd_range<1>& range, std::size_t local_bytes, std::span<const std::byte> functor) {
  return [&runner, &kernel, range, local_bytes, bytes = std::vector<std::byte>(functor.begin(), functor.end())](
             sycl::queue& queue, const detail::kernel_call&, const events& dependencies) {
    sycl::event::wait_and_throw(dependencies);
    queue.wait_and_throw();
    runner.run(kernel, range, local_bytes, bytes);
    return sycl::event();
  };
}
#endif

}  // namespace

void detail::check_no_open_operation(const sycl::context& memory) {
  for (const context_state* state : open_in_this_thread()) {
    if (state->queue.get_context() != memory) continue;
    throw invalid_argument(fmt::format(
        "tensor::to_host: nothing of the operation {} has run yet; submit it and wait for it first", state->name));
  }
}

operation::operation(context& ctx, std::string_view name, const events& dependencies)
    : ctx_(ctx), name_(name), is_outermost_(!ctx.state_->is_recording) {
  detail::context_state& state = *ctx_.state_;
  events waits_for;
  for (const sycl::event& one : dependencies) {
    if (!is_placeholder(one)) {
      waits_for.push_back(one);
    } else if (is_outermost_) {
      throw invalid_argument(fmt::format(
          "{}: a dependency is the event of a call inside an operation, which stands for nothing outside of "
          "it; wait for the event of that operation instead",
          name));
    }
  }
  if (is_outermost_) {
    for (detail::workspace* memory : {&state.device_memory, &state.host_memory}) {
      memory->reset_peak();
      if (!memory->is_scattered() || state.is_dry) continue;
      state.last_use.wait();
      memory->consolidate();
    }
    open_in_this_thread().push_back(&state);
    state.is_recording = true;
    state.name = name;
  }
  state.dependencies.insert(state.dependencies.end(), waits_for.begin(), waits_for.end());
  first_step_ = state.steps.size();
  first_keeper_ = state.keepers.size();
  device_mark_ = state.device_memory.mark();
  host_mark_ = state.host_memory.mark();
}

operation::~operation() { close(); }

void operation::close() {
  if (!std::exchange(is_open_, false)) return;
  detail::context_state& state = *ctx_.state_;
  state.device_memory.release(device_mark_);
  state.host_memory.release(host_mark_);
  if (!is_submitted_) {
    state.steps.erase(state.steps.begin() + static_cast<std::ptrdiff_t>(first_step_), state.steps.end());
    state.keepers.erase(state.keepers.begin() + static_cast<std::ptrdiff_t>(first_keeper_), state.keepers.end());
  }
  if (!is_outermost_) return;
  state.steps.clear();
  state.keepers.clear();
  state.dependencies.clear();
  state.is_recording = false;
  std::erase(open_in_this_thread(), &state);
}

std::int64_t operation::checked_size(const std::int64_t* begin, const std::int64_t* end) const {
  std::int64_t count = 1;
  bool is_too_large = false;
  for (const std::int64_t* extent = begin; extent != end; ++extent) {
    if (*extent == 0) return 0;
    is_too_large |= __builtin_mul_overflow(count, *extent, &count);
  }
  if (is_too_large) throw invalid_argument(fmt::format("{}: the workspace is too large for 64-bit sizes", name_));
  return count;
}

void* operation::take_bytes(std::int64_t count, std::size_t element_bytes, memory_kind kind) {
  check_open(is_open_, name_);
  constexpr std::int64_t most = std::int64_t{1} << 62;
  std::int64_t bytes = 0;
  if (count < 0 || __builtin_mul_overflow(count, static_cast<std::int64_t>(element_bytes), &bytes) || bytes > most) {
    throw invalid_argument(
        fmt::format("{}: {} elements of {} bytes of workspace are no possible size", name_, count, element_bytes));
  }
  detail::context_state& state = *ctx_.state_;
  return (kind == memory_kind::device ? state.device_memory : state.host_memory).take(bytes);
}

std::size_t operation::allocated_local_bytes(std::size_t local_bytes) const {
  const detail::context_state& state = *ctx_.state_;
  if (std::cmp_greater(local_bytes, state.device->usable_local_bytes())) {
    throw unsupported_device(fmt::format("{}: a kernel needs {} bytes of local memory, {} has {}", name_, local_bytes,
                                         state.device->name, state.device->usable_local_bytes()));
  }
  const std::size_t bytes = local_bytes + detail::local_alignment;
#ifdef __ADAPTIVECPP__
  // It compiles a kernel again for every size. A CPU, whose local memory is memory like any other, sees few of them.
  if (state.device->kind == device_kind::cpu) return std::bit_ceil(bytes);
#endif
  return bytes;
}

void operation::add(const detail::kernel_description* kernel, kernel_command step, step_order order,
                    std::span<const std::byte> functor) {
  check_open(is_open_, name_);
  if (std::exchange(begins_stage_, false)) order = step_order::next;
  ctx_.state_->steps.push_back({kernel, std::move(step), order, {functor.begin(), functor.end()}});
}

#ifndef NULLSCOPE_SINGLE_SOURCE
void operation::launch_bytes(const detail::kernel_description* kernel, const sycl::nd_range<1>& range,
                             std::size_t local_bytes, std::span<const std::byte> functor, step_order order) {
  const std::size_t allocated = allocated_local_bytes(local_bytes);
  if (detail::kernel_runner* const runner = ctx_.state_->runner; runner != nullptr) {
    add(kernel, runner_step(*runner, *kernel, range, local_bytes, functor), order);
  } else {
    add(kernel, kernel_step(range, allocated), order, functor);
  }
}
#endif

void operation::run(command step, step_order order) {
  add(
      nullptr,
      [step = std::move(step)](sycl::queue& queue, const detail::kernel_call&, const events& dependencies) {
        return step(queue, dependencies);
      },
      order);
}

sycl::event operation::submit() {
  check_open(is_open_, name_);
  is_submitted_ = true;
  if (!is_outermost_) return placeholder();
  detail::context_state& state = *ctx_.state_;
  if (state.device_memory.is_exceeded()) {
    throw invalid_argument(
        fmt::format("{}: the workspace is too small, {} bytes are needed", name_, state.device_memory.peak_bytes()));
  }
  sycl::event last;
  if (state.is_dry) {
    note_needs(state);
  } else {
    compile_steps(state);
    last = submit_steps(state);
    for (const auto& keep : state.keepers) keep(last);
  }
  close();
  return last;
}

void operation::when_submitted(std::function<void(const sycl::event&)> keep) {
  check_open(is_open_, name_);
  ctx_.state_->keepers.push_back(std::move(keep));
}

void operation::submit_and_wait() {
  if (!is_outermost_ || ctx_.state_->is_dry) {
    throw invalid_argument(fmt::format(
        "{}: functions on tensors wait for their results, which other operations and dry runs cannot", name_));
  }
  submit().wait_and_throw();
}

}  // namespace nullscope

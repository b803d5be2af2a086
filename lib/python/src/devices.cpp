#include "devices.hpp"

#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <nullscope/core/device.hpp>
#include <stdexcept>
#include <utility>

namespace nullscope::python {
namespace {

/// In a forked child: at its end, what the runtime would destroy waits for threads that only the parent has. Handlers
/// run in the reverse order of their registration, so this one comes before.
void leave_without_the_runtime() {
  on_exit(
      [](int status, void*) {
        std::fflush(nullptr);
        _exit(status);
      },
      nullptr);
}

/// The process that used the runtime first.
pid_t owner_process() {
  static const pid_t owner = [] {
    pthread_atfork(nullptr, nullptr, leave_without_the_runtime);
    return getpid();
  }();
  return owner;
}

bool is_own_process() { return owner_process() == getpid(); }

}  // namespace

void require_own_process() {
  if (is_own_process()) return;
  throw std::runtime_error(
      "nullscope: this process was forked from one that had already used a device, and a SYCL queue does not survive a "
      "fork. Start child processes with multiprocessing.set_start_method(\"spawn\"), or use nullscope in the children "
      "only.");
}

device_handle::device_handle(const sycl::device& device)
    : device_(device),
      // The kernels of a CPU run in this process, whatever its driver says of system allocations.
      reads_host_memory_(device.is_cpu() || device.has(sycl::aspect::usm_system_allocations)) {}

device_handle::~device_handle() {
  if (is_own_process()) return;
  for (auto& inherited : free_) static_cast<void>(inherited.release());  // its queue would wait for ever
}

std::unique_ptr<context> device_handle::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      std::unique_ptr<context> result = std::move(free_.back());
      free_.pop_back();
      return result;
    }
  }
  return std::make_unique<context>(device_);
}

void device_handle::give_back(std::unique_ptr<context> used) {
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(used));
}

}  // namespace nullscope::python

/// Handles of a vendor's library: one for each SYCL context and device, made on first use.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <mutex>
#include <nullscope/core/errors.hpp>
#include <sycl/sycl.hpp>
#include <utility>
#include <vector>

namespace nullscope::detail {

/// A handle may be used by one thread at a time: by whoever holds the mutex.
struct library_handle {
  std::mutex mutex;
  void* value = nullptr;
};

class library_handles {
 public:
  /// Null at first: it is made in a native command, where the device's own context is current.
  library_handle& of(const sycl::queue& queue) {
    const std::lock_guard lock(mutex_);
    for (auto& [context, device, handle] : all_) {
      if (context == queue.get_context() && device == queue.get_device()) return *handle;
    }
    all_.push_back({queue.get_context(), queue.get_device(), std::make_unique<library_handle>()});
    return *all_.back().handle;
  }

 private:
  struct entry {
    sycl::context context;
    sycl::device device;
    std::unique_ptr<library_handle> handle;
  };

  std::mutex mutex_;
  std::vector<entry> all_;
};

/// Those of the library with these functions.
template <class Functions>
library_handles& handles_of() {
  static auto* instance = new library_handles;  // outlives the runtime, on purpose
  return *instance;
}

/// Throws an error that names the function if a library's status is not 0, which says success in all of them.
inline void expect_success(int status, const char* function) {
  if (status != 0) throw error(fmt::format("{} failed with status {}", function, status));
}

}  // namespace nullscope::detail

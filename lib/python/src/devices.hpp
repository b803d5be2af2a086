/// A device as Python sees it: its properties, and contexts that calls from several threads borrow.
#pragma once

#include <memory>
#include <mutex>
#include <nullscope/core/context.hpp>
#include <sycl/sycl.hpp>
#include <vector>

namespace nullscope::python {

/// Throws if this process was forked from one that has used the SYCL runtime, whose threads and queues do not survive
/// a fork.
void require_own_process();

class device_handle {
 public:
  explicit device_handle(const sycl::device& device);
  device_handle(const device_handle&) = delete;
  device_handle& operator=(const device_handle&) = delete;
  ~device_handle();

  const sycl::device& device() const { return device_; }
  const device_properties& properties() const { return nullscope::properties(device_); }

  /// Kernels read memory of the host, so that arrays need not be copied.
  bool reads_host_memory() const { return reads_host_memory_; }

  /// A context that no other thread uses; made if all are in use. To be given back.
  std::unique_ptr<context> take();
  void give_back(std::unique_ptr<context> used);

 private:
  sycl::device device_;
  bool reads_host_memory_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<context>> free_;
};

/// A context of a device, borrowed until the end of the scope.
class borrowed_context {
 public:
  explicit borrowed_context(device_handle& from) : from_(from), context_(from.take()) {}
  borrowed_context(const borrowed_context&) = delete;
  borrowed_context& operator=(const borrowed_context&) = delete;
  ~borrowed_context() { from_.give_back(std::move(context_)); }

  context& operator*() const { return *context_; }

 private:
  device_handle& from_;
  std::unique_ptr<context> context_;
};

}  // namespace nullscope::python

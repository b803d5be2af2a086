/// Commands for the queue of a device's own runtime, which vendors' libraries take.
#pragma once

#include <functional>
#include <nullscope/core/operation.hpp>
#include <sycl/sycl.hpp>

namespace nullscope::detail {

enum class native_queue { none, cuda, hip };

/// Whose queue stands behind a SYCL queue; none also where SYCL does not hand it out.
native_queue native_queue_of(const sycl::queue& queue);

/// Calls `call` with the native queue (CUstream, hipStream_t): what it puts there runs after the dependencies. Where
/// there is no native queue, `call` gets null and does its work on the host.
sycl::event enqueue_native(sycl::queue& queue, const events& dependencies, const std::function<void(void*)>& call);

}  // namespace nullscope::detail

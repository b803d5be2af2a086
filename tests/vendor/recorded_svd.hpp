/// What a stand-in for cuSOLVER was called with.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nullscope::test {

/// All decompositions so far, and the last one. A matrix whose first element is `refused` does not converge.
struct recorded_svd {
  static constexpr double refused = 12345;
  static constexpr std::size_t device_bytes = 1000, host_bytes = 30;

  std::int64_t calls, m, n;
  char u_job, vt_job;
  bool has_memory, saw_not_finite;
};

}  // namespace nullscope::test

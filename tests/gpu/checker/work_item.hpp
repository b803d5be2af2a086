/// What kernels ask of the checker, by way of the stand-in for SYCL. All of it is called by the work-item that runs.
#pragma once

#include <cstddef>

namespace nullscope::races {

/// Where a work-item is.
struct item_place {
  std::size_t item, items;    // in the work-group
  std::size_t group, groups;  // in the launch
  std::size_t sub_group_size;
};

/// The work-items that meet.
enum class scope { sub_group, work_group };

/// Waits for all work-items of the scope. What they read and wrote before comes before what they read and write after.
void meet(scope of);

/// Waits for all work-items of the scope, and returns what each of them gave: `slot_bytes` apart, by their place in the
/// scope, until the next exchange. Orders no accesses to memory. `what` tells one collective from another.
const std::byte* exchange(scope of, const char* what, const void* mine, std::size_t bytes);

constexpr std::size_t slot_bytes = 64;  // the most that a work-item gives

/// An access of atomic_ref: no race with another one.
void note_atomic(const void* at, std::size_t bytes, bool writes);

}  // namespace nullscope::races

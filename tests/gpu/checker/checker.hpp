/// Runs a kernel of a GPU on the host, and finds every race.
///
/// The kernel is compiled with -fsanitize=thread, which calls a function before every load and store; those functions
/// are the checker's own. Work-items are fibers of one thread, which change places at barriers only. Between two
/// barriers the work-items of a work-group have no order: if two of them touch the same byte then, and one of them
/// writes and not both by atomic_ref, that is a race, whatever happened in this run. Work-items of different
/// work-groups have no order in the whole launch. A barrier of a sub-group orders its own work-items.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/gpu/checker/work_item.hpp"

namespace nullscope::races {

/// A kernel that was compiled for the checker.
struct checked_kernel {
  std::string_view name;  ///< of its type, as nullscope::detail::type_name gives it
  std::size_t bytes;      ///< of the functor
  int sub_group_size;     ///< that it asks for, if it is above 0
  void (*call)(const std::byte* functor, const item_place& place, std::byte* local);
};

struct launch_shape {
  std::size_t groups, items, local_bytes;
};

struct settings {
  int sub_group_size = 32;  ///< where the kernel does not ask for one
  std::uint32_t order = 0;  ///< seed of the order of work-groups and of work-items between barriers; 0: ascending
  /// "kernels/linalg/row.hpp:33": barriers that are called from one of these lines are left out.
  std::vector<std::string> without_barriers = {};
  std::set<std::string>* passed_lines =
      nullptr;  ///< gets the lines of all barriers that were passed, and their callers
};

enum class fault_kind { race, divergence, outside_of_local_memory, unwritten_local_memory };

struct fault {
  fault_kind kind;
  std::string text;  ///< what happened, with files, lines and work-items
};

/// Runs the launch, unless a barrier cannot be passed, and returns its faults, each pair of places once.
__attribute__((visibility("default"))) std::vector<fault> run(const checked_kernel& kernel, const std::byte* functor,
                                                              const launch_shape& shape, const settings& how);

/// The kernels of this library, by name; null: there is no such kernel.
__attribute__((visibility("default"))) const checked_kernel* find_kernel(std::string_view name);
__attribute__((visibility("default"))) std::span<const checked_kernel> all_kernels();

}  // namespace nullscope::races

#include <algorithm>

#include <vector>

#include "tests/gpu/checker/checker.hpp"

namespace nullscope::races {

std::vector<checked_kernel> table();  // of the library with the kernels

std::span<const checked_kernel> all_kernels() {
  static const std::vector<checked_kernel> all = table();
  return all;
}

const checked_kernel* find_kernel(std::string_view name) {
  const auto found = std::find_if(all_kernels().begin(), all_kernels().end(),
                                  [&](const checked_kernel& one) { return one.name == name; });
  return found == all_kernels().end() ? nullptr : &*found;
}

}  // namespace nullscope::races

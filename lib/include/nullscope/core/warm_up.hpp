/// Compiles the library's kernels ahead of their first use: before a job on a cluster whose nodes cannot write to the
/// folder of compiled kernels, or to keep the first call from waiting. Kernels of your own: `warm_up` in operation.hpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nullscope/core/context.hpp>
#include <string>
#include <vector>

namespace nullscope {

/// Which kernels; by default all that may run in float.
struct warm_up_options {
  std::vector<std::string> subjects = {};  ///< folders of kernels/: "attention", "linalg", ...; empty: all
  std::string name = {};                   ///< a part of the kernel's name
  bool with_double = false;                ///< also those in double, where the device has fp64
  /// Called in this thread after each part.
  std::function<void(std::int64_t done, std::int64_t total)> progress = {};
};

struct warm_up_results {
  std::int64_t kernels = 0;           ///< that are ready now
  std::vector<std::string> refused;   ///< names of those that the device's compiler refuses
  std::filesystem::path folder = {};  ///< where they are kept; empty: nothing is kept
};

/// Compiles the kernels that the context's layout may launch on its device, several at a time; those that are kept on
/// disk already are read. Kernels of matrix engines are left out: the device decides which of them there are. Does
/// nothing in a single-source build.
warm_up_results warm_up_library(context& ctx, const warm_up_options& options = {});

namespace detail {

/// The library's kernels that options ask for, for a layout.
std::vector<const kernel_description*> library_kernels(const lane_layout& layout, const warm_up_options& options);

}  // namespace detail
}  // namespace nullscope

#include <algorithm>
#include <mutex>
#include <nullscope/core/errors.hpp>
#include <nullscope/core/operation.hpp>
#include <nullscope/core/warm_up.hpp>
#include <thread>

#include "lib/src/jit/kernel_cache.hpp"

namespace nullscope {

#ifdef NULLSCOPE_SINGLE_SOURCE

std::vector<const detail::kernel_description*> detail::library_kernels(const lane_layout&, const warm_up_options&) {
  return {};
}

warm_up_results warm_up_library(context&, const warm_up_options&) { return {}; }

#else

namespace {

/// Every kernel that some `launch` of this program mentions, written when the program starts.
struct kernel_list {
  std::mutex mutex;
  std::vector<const detail::kernel_description*> all;
};

kernel_list& listed() {
  static auto* instance = new kernel_list;  // never destroyed: other objects of the program may be created later
  return *instance;
}

/// "kernels/linalg/gemm_tiled.hpp" -> "linalg"; empty for kernels that are not the library's.
std::string_view subject_of(std::string_view source) {
  constexpr std::string_view folder = "kernels/";
  if (!source.starts_with(folder)) return "";
  source.remove_prefix(folder.size());
  return source.substr(0, source.find('/'));
}

}  // namespace

namespace detail {

bool list_kernel(const kernel_description& kernel) {
  const std::lock_guard lock(listed().mutex);
  listed().all.push_back(&kernel);
  return true;
}

std::vector<const kernel_description*> library_kernels(const lane_layout& layout, const warm_up_options& options) {
  const auto is_asked_for = [&](const kernel_description& kernel) {
    const std::string_view subject = subject_of(kernel.source);
    const auto is_subject = [&](const std::string& one) { return one == subject; };
    if (subject.empty() || kernel.source.find("joint_matrix") != std::string_view::npos) return false;
    if (kernel.one_work_item && !layout.has_vectors()) return false;
    if (!options.with_double && kernel.type_name.find("double") != std::string_view::npos) return false;
    return (options.subjects.empty() || std::ranges::any_of(options.subjects, is_subject)) &&
           kernel.type_name.find(options.name) != std::string_view::npos;
  };
  const std::lock_guard lock(listed().mutex);
  std::vector<const kernel_description*> found;
  for (const kernel_description* kernel : listed().all) {
    if (is_asked_for(*kernel)) found.push_back(kernel);
  }
  // In an order of their own: that of the list depends on the linker.
  std::ranges::sort(found, {}, &kernel_description::type_name);
  const auto repeated = std::ranges::unique(found);
  found.erase(repeated.begin(), repeated.end());
  return found;
}

}  // namespace detail

warm_up_results warm_up_library(context& ctx, const warm_up_options& options) {
  warm_up_options possible = options;
  possible.with_double &= ctx.device().fp64;
  const std::vector<const detail::kernel_description*> kernels = detail::library_kernels(ctx.layout(), possible);
  const auto total = std::ssize(kernels);
  const std::ptrdiff_t part = 8 * std::max<std::ptrdiff_t>(1, std::thread::hardware_concurrency());
  warm_up_results results{0, {}, detail::kernel_cache().folder()};
  for (std::ptrdiff_t begin = 0; begin < total; begin += part) {
    const std::ptrdiff_t end = std::min(begin + part, total);
    try {
      detail::compile_kernels(ctx.queue(), {kernels.begin() + begin, kernels.begin() + end});
      results.kernels += end - begin;
    } catch (const compilation_error&) {  // which of them?
      for (std::ptrdiff_t i = begin; i < end; ++i) {
        try {
          detail::compile_kernels(ctx.queue(), {kernels[static_cast<std::size_t>(i)]});
          ++results.kernels;
        } catch (const compilation_error&) {
          results.refused.emplace_back(kernels[static_cast<std::size_t>(i)]->type_name);
        }
      }
    }
    if (options.progress) options.progress(end, total);
  }
  return results;
}

#endif

}  // namespace nullscope

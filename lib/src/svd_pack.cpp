#include <algorithm>
#include <nullscope/device.hpp>
#include <nullscope/launch.hpp>

#include "svd_pack.hpp"
#include "svd_paths.hpp"
#include "team_shape.hpp"

namespace nullscope::detail {

namespace {

template <class T>
constexpr int lanes = 64 / sizeof(T);

template <class T>
kernels::svd_pack_layout layout_of(const svd_problem<T>& problem) {
  const bool is_full = problem.u_columns == problem.m() && problem.m() > problem.n();
  // QR first pays from m = 1.5 n; with a full u its reflections would have to be applied to m columns
  return {problem.m(), problem.n(), problem.u_columns, 2 * problem.m() >= 3 * problem.n() && !is_full};
}

/// As many work-groups as keep every core busy: each has a scratch memory of its own, which stays in its core's cache.
template <class T>
std::int64_t group_count(const sycl::queue& queue, std::int64_t batch) {
  const std::int64_t packs = ceil_div(batch, lanes<T>);
  return std::min(packs, 4 * properties(queue.get_device()).compute_units);
}

}  // namespace

template <class T>
std::int64_t pack_path<T>::scratch_bytes(const sycl::queue& queue, const svd_problem<T>& problem) {
  return group_count<T>(queue, problem.batch()) * layout_of(problem).size() * lanes<T> *
         static_cast<std::int64_t>(sizeof(T));
}

template <class T>
sycl::event pack_path<T>::run(sycl::queue& queue, const svd_problem<T>& problem, std::byte* scratch,
                              const std::vector<sycl::event>& dependencies) {
  const std::int64_t max_sweeps = problem.max_sweeps > 0 ? problem.max_sweeps : 8 * problem.n() + 32;
  const kernels::svd_pack<T, lanes<T>> kernel{layout_of(problem), problem.a,  problem.s,
                                              problem.u,          problem.v,  problem.status,
                                              problem.sweeps,     max_sweeps, reinterpret_cast<T*>(scratch)};
  return launch(queue, groups_of(group_count<T>(queue, problem.batch()), 1), 0, kernel, dependencies);
}

template struct pack_path<float>;
template struct pack_path<double>;

}  // namespace nullscope::detail

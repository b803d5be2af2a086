#include <algorithm>
#include <nullscope/device.hpp>
#include <nullscope/launch.hpp>

#include "scratchpad.hpp"
#include "svd_jacobi.hpp"
#include "svd_paths.hpp"
#include "team_shape.hpp"

namespace nullscope::detail {

namespace {

template <class T>
constexpr int wide = 64 / sizeof(T);

template <class T>
kernels::svd_jacobi_layout layout_of(const svd_problem<T>& problem, jacobi_shape shape) {
  return {problem.m(), problem.n(), problem.u_columns, shape.is_wide ? wide<T> : 1};
}

template <class T>
std::int64_t bytes_of(const kernels::svd_jacobi_layout& layout) {
  return scratchpad_parts::rounded(layout.size() * static_cast<std::int64_t>(sizeof(T)));
}

template <class T>
std::int64_t sums_bytes(jacobi_shape shape) {
  const std::int64_t count = shape.is_wide ? 0 : kernels::svd_group<T, 1>::local_numbers(shape.group);
  return count * static_cast<std::int64_t>(sizeof(T));
}

/// A matrix in local memory costs no scratch; on a CPU, local memory is memory like any other.
template <class T>
bool is_local(const sycl::queue& queue, const kernels::svd_jacobi_layout& layout, jacobi_shape shape) {
  const std::int64_t bytes = bytes_of<T>(layout) + sums_bytes<T>(shape);
  return !shape.is_wide && bytes <= properties(queue.get_device()).usable_local_bytes();
}

/// Enough work-groups to fill the device, each with its own scratch memory.
template <class T>
std::int64_t group_count(const sycl::queue& queue, const svd_problem<T>& problem) {
  return std::min(problem.batch(), 8 * properties(queue.get_device()).compute_units);
}

}  // namespace

jacobi_shape jacobi_shape::of(const sycl::queue& queue) {
  const device_properties& device = properties(queue.get_device());
  if (device.kind == device_kind::cpu) return {true, 1};
  return {false, std::min<std::int64_t>(256, device.max_work_group_size)};
}

template <class T>
std::int64_t jacobi_path<T>::scratch_bytes(const sycl::queue& queue, const svd_problem<T>& problem,
                                           jacobi_shape shape) {
  const auto layout = layout_of(problem, shape);
  return is_local<T>(queue, layout, shape) ? 0 : group_count(queue, problem) * bytes_of<T>(layout);
}

template <class T>
sycl::event jacobi_path<T>::run(sycl::queue& queue, const svd_problem<T>& problem, jacobi_shape shape,
                                std::byte* scratch, const std::vector<sycl::event>& dependencies) {
  auto layout = layout_of(problem, shape);
  const bool uses_local = is_local<T>(queue, layout, shape);
  const std::int64_t groups = uses_local ? problem.batch() : group_count(queue, problem);
  const std::int64_t max_sweeps =
      problem.max_sweeps > 0 ? problem.max_sweeps : 60 + 2 * problem.n();  // rows that fall steeply are slow
  const auto start = [&]<int W>(kernels::svd_jacobi<T, W>) {
    const kernels::svd_jacobi<T, W> kernel{
        layout,         problem.a,  problem.s,
        problem.u,      problem.v,  problem.status,
        problem.sweeps, max_sweeps, uses_local ? nullptr : reinterpret_cast<T*>(scratch)};
    const std::int64_t local = sums_bytes<T>(shape) + (uses_local ? bytes_of<T>(layout) : 0);
    return launch(queue, groups_of(groups, shape.group), static_cast<std::size_t>(local), kernel, dependencies);
  };
  return shape.is_wide ? start(kernels::svd_jacobi<T, wide<T>>{}) : start(kernels::svd_jacobi<T, 1>{});
}

template struct jacobi_path<float>;
template struct jacobi_path<double>;

}  // namespace nullscope::detail

#include <algorithm>
#include <cstddef>

#include "kernels/linalg/svd/jacobi.hpp"
#include "lib/src/core/dispatch.hpp"
#include "lib/src/core/ranges.hpp"
#include "lib/src/linalg/svd_paths.hpp"

namespace nullscope::detail {
namespace {

constexpr int items_per_pair = 16;  // work-items that share a pair of columns, if a work-group has so many

/// One work-group per matrix, of as many groups as it holds.
template <int W, int Items, class T>
void launch_with(operation& op, const svd_problem<T>& problem) {
  constexpr std::int64_t number_bytes = sizeof(T);
  const lane_layout& lanes = op.ctx().layout();
  const std::int64_t groups = Items == 1 ? 1 : lanes.group_items / Items;
  kernels::svd_jacobi<T, W, Items> kernel{};
  kernel.layout = {problem.m(), problem.n(), problem.u_columns, W};
  kernel.problem = problem;
  if (problem.max_sweeps == 0) kernel.problem.max_sweeps = 60 + 2 * problem.n();  // graded rows are slow
  // A matrix in local memory needs no workspace; on a CPU, local memory is memory like any other.
  const std::int64_t sums = groups * static_cast<std::int64_t>(kernels::group<Items>::local_bytes);
  const std::int64_t matrix_bytes = kernel.layout.size() * number_bytes;
  const bool uses_local = W == 1 && sums + matrix_bytes <= lanes.local_bytes;
  // Otherwise enough work-groups to fill the device, each with its own memory.
  const std::int64_t work_groups =
      uses_local ? problem.batch() : std::min(problem.batch(), 8 * op.ctx().device().compute_units);
  if (!uses_local) kernel.scratch = op.take_array<T>(work_groups, kernel.layout.size()).data;
  op.launch(groups_of(work_groups, groups * Items), static_cast<std::size_t>(sums + (uses_local ? matrix_bytes : 0)),
            kernel);
}

template <class T>
void launch_jacobi(operation& op, const svd_problem<T>& problem) {
  const lane_layout& lanes = op.ctx().layout();
  dispatch_lanes<T>(lanes, [&]<int W>() {
    if constexpr (W == 1) {
      if (lanes.group_items >= items_per_pair) return launch_with<W, items_per_pair>(op, problem);
    }
    launch_with<W, 1>(op, problem);
  });
}

}  // namespace

void run_jacobi_svd(operation& op, const svd_problem<float>& problem) { launch_jacobi(op, problem); }
void run_jacobi_svd(operation& op, const svd_problem<double>& problem) { launch_jacobi(op, problem); }

}  // namespace nullscope::detail

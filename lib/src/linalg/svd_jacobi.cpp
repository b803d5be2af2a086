#include <algorithm>
#include <cstddef>

#include "kernels/linalg/svd/jacobi.hpp"
#include "lib/src/core/dispatch.hpp"
#include "lib/src/core/ranges.hpp"
#include "lib/src/linalg/svd_paths.hpp"

namespace nullscope::detail {
namespace {

/// Work-items per matrix: those of a group, or, if it is larger, of whole groups of the kernel.
template <class T>
std::int64_t items_in(const lane_layout& lanes) {
  constexpr std::int64_t whole = kernels::svd_group<T, 1>::team_size;
  return lanes.group_items < whole ? lanes.group_items : lanes.group_items / whole * whole;
}

template <class T>
void launch_jacobi(operation& op, const svd_problem<T>& problem) {
  const lane_layout& lanes = op.ctx().layout();
  dispatch_lanes<T>(lanes, [&]<int W>() {
    constexpr std::int64_t number_bytes = sizeof(T);
    const std::int64_t items = W > 1 ? 1 : items_in<T>(lanes);
    kernels::svd_jacobi<T, W> kernel{};
    kernel.layout = {problem.m(), problem.n(), problem.u_columns, W};
    kernel.problem = problem;
    if (problem.max_sweeps == 0) kernel.problem.max_sweeps = 60 + 2 * problem.n();  // graded rows are slow
    // A matrix in local memory needs no workspace; on a CPU, local memory is memory like any other.
    const std::int64_t sums = kernels::svd_group<T, W>::local_numbers(items);
    const bool uses_local = W == 1 && (sums + kernel.layout.size()) * number_bytes <= lanes.local_bytes;
    // Otherwise enough work-groups to fill the device, each with its own memory.
    const std::int64_t groups =
        uses_local ? problem.batch() : std::min(problem.batch(), 8 * op.ctx().device().compute_units);
    if (!uses_local) kernel.scratch = op.take_array<T>(groups, kernel.layout.size()).data;
    const std::int64_t local = (sums + (uses_local ? kernel.layout.size() : 0)) * number_bytes;
    op.launch(groups_of(groups, items), static_cast<std::size_t>(local), kernel);
  });
}

}  // namespace

void run_jacobi_svd(operation& op, const svd_problem<float>& problem) { launch_jacobi(op, problem); }
void run_jacobi_svd(operation& op, const svd_problem<double>& problem) { launch_jacobi(op, problem); }

}  // namespace nullscope::detail

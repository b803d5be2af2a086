#include <algorithm>

#include "kernels/linalg/svd/laned.hpp"
#include "lib/src/core/dispatch.hpp"
#include "lib/src/core/ranges.hpp"
#include "lib/src/linalg/svd_paths.hpp"

namespace nullscope::detail {
namespace {

template <class T>
kernels::svd_laned_layout layout_of(const svd_problem<T>& problem) {
  const bool is_full = problem.u_columns == problem.m() && problem.m() > problem.n();
  // QR first pays from m = 1.5 n; with a full u its reflections would have to be applied to m columns
  return {problem.m(), problem.n(), problem.u_columns, 2 * problem.m() >= 3 * problem.n() && !is_full};
}

template <class T>
void laned_svd(operation& op, const svd_problem<T>& problem) {
  dispatch_lanes<T>(op.ctx().layout(), [&]<int W>() {
    // Enough work-groups to keep every core busy: each has its own memory, which stays in its core's cache.
    const std::int64_t groups = std::min(ceil_div(problem.batch(), W), 4 * op.ctx().device().compute_units);
    kernels::svd_laned<T, W> kernel{};
    kernel.layout = layout_of(problem);
    kernel.problem = problem;
    if (problem.max_sweeps == 0) kernel.problem.max_sweeps = 8 * problem.n() + 32;
    kernel.scratch = op.take_array<T>(groups, kernel.layout.size(), W).data;
    op.launch(groups_of(groups, 1), 0, kernel);
  });
}

}  // namespace

void run_laned_svd(operation& op, const svd_problem<float>& problem) { laned_svd(op, problem); }
void run_laned_svd(operation& op, const svd_problem<double>& problem) { laned_svd(op, problem); }

}  // namespace nullscope::detail

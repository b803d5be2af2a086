/// What stands around a decomposition by a library on a GPU: matrices column by column, without NaN or infinity, and
/// the way of the results to where they belong.
#pragma once

#include <cstdint>

#include "kernels/linalg/svd/unstage.hpp"
#include "kernels/linalg/svd/vendor_stage.hpp"
#include "lib/src/core/fill.hpp"
#include "lib/src/core/ranges.hpp"
#include "lib/src/linalg/svd_paths.hpp"

namespace nullscope::detail {

template <class T>
struct staged_svd {
  std::int64_t m, n, u_columns;
  view<T, 3> a, u, vt;  // (batch, m, n), (batch, m, u_columns), (batch, n, n); the last two absent without vectors
  view<T, 2> s;
  view<std::int32_t, 1> not_finite, info;

  staged_svd(operation& op, const svd_problem<T>& problem)
      : m(problem.m()),
        n(problem.n()),
        u_columns(problem.u_columns),
        a(transposed(op.take_array<T>(problem.batch(), n, m))),
        s(op.take_array<T>(problem.batch(), n)),
        not_finite(op.take_array<std::int32_t>(problem.batch())),
        info(op.take_array<std::int32_t>(problem.batch())) {
    if (u_columns == 0) return;
    u = transposed(op.take_array<T>(problem.batch(), u_columns, m));
    vt = transposed(op.take_array<T>(problem.batch(), n, n));
  }

  bool has_vectors() const { return u_columns > 0; }
  bool is_full() const { return u_columns == m && m > n; }
};

/// `decompose` overwrites a with rubbish and writes s, info and, if there are vectors, u and vt.
template <class T>
void decompose_staged(operation& op, const svd_problem<T>& problem, const staged_svd<T>& staged,
                      operation::command decompose) {
  constexpr std::int64_t items = 64;
  const std::int64_t batch = problem.batch();
  const auto work_items = [](std::int64_t count) { return groups_of(ceil_div(count, items), items); };
  fill_zero(op, staged.not_finite);
  op.launch(work_items(batch * staged.m), 0, kernels::svd_stage<T>{problem.a, staged.a, staged.not_finite});
  op.launch(work_items(batch * staged.m), 0, kernels::svd_blank<T>{staged.not_finite, staged.a});
  op.run(std::move(decompose));
  const kernels::svd_judge<T> judge{staged.not_finite, staged.info, staged.s, staged.u, staged.vt};
  op.launch(work_items(batch * judge.rows()), 0, judge);
  const kernels::svd_unstage<T> unstage{.from_s = staged.s,
                                        .from_u = staged.u,
                                        .from_vt = staged.vt,
                                        .from_status = staged.info,
                                        .s = problem.s,
                                        .u = problem.u,
                                        .vt = staged.has_vectors() ? transposed(problem.v) : view<T, 3>{},
                                        .status = problem.status,
                                        .sweeps = problem.sweeps};
  op.launch(groups_of(batch * unstage.rows(), 1), 0, unstage);
}

}  // namespace nullscope::detail

/// How the operations of layers launch kernels that go row by row.
#pragma once

#include <cstdint>
#include <nullscope/core/operation.hpp>

#include "kernels/model/column_partials.hpp"
#include "lib/src/core/ranges.hpp"
#include "lib/src/core/team.hpp"

namespace nullscope::detail {

/// Launches a kernel over `rows` rows of `columns` elements; sets its rows_per_group. Returns the number of
/// work-groups.
template <int Items, class Kernel>
std::int64_t launch_rows(operation& op, team_shape team, std::int64_t rows, std::int64_t row_bytes, Kernel kernel) {
  kernel.rows_per_group = rows_per_group(op.ctx(), team, rows, row_bytes);
  const std::int64_t groups = ceil_div(rows, kernel.rows_per_group);
  op.launch(groups_of(groups, Items), kernels::team<Items>::local_bytes, kernel);
  return groups;
}

/// How many rows a work-group takes of a kernel that also adds up columns: so many that few partial sums are left.
inline std::int64_t rows_per_partial(const context& ctx, std::int64_t rows) {
  const std::int64_t groups = 8 * ctx.device().compute_units;
  return ceil_div(rows, groups) < 1 ? 1 : ceil_div(rows, groups);
}

/// The second step of column sums: out[part] (columns) from partial (groups, parts, columns).
template <class T>
void add_partials(operation& op, const kernels::add_partials<T>& kernel) {
  constexpr std::int64_t items = 64;
  op.launch(groups_of(ceil_div(kernel.partial.columns, items), items), 0, kernel);
}

}  // namespace nullscope::detail

/// Column sums of kernels that go row by row: partial sums of each work-group, then the sum of these.
#pragma once

#include <cstdint>
#include <nullscope/core/operation.hpp>

#include "kernels/model/column_partials.hpp"
#include "lib/src/core/ranges.hpp"

namespace nullscope::detail {

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

/// How kernels that go row by row are laid on a device, and launched.
#pragma once

#include <algorithm>
#include <cstdint>
#include <nullscope/core/operation.hpp>

#include "kernels/group/group.hpp"
#include "lib/src/core/dispatch.hpp"
#include "lib/src/core/ranges.hpp"

namespace nullscope::detail {

/// The shape for rows of `columns` elements. `neighbours` says that the last stride of all operands is 1.
/// `streamable_bytes` is how much could be written past the caches, and is if the layout's `streams_from`, divided by
/// `eagerness`, is reached: results that the next kernel would not find in the caches anyway.
row_shape choose_row_shape(const lane_layout& layout, std::int64_t columns, bool neighbours,
                           std::int64_t streamable_bytes = 0, std::int64_t eagerness = 1);

/// How many rows of `row_bytes` a work-group takes, one after the other: one on a GPU; on a CPU so many that scheduling
/// does not show, and so few that all cores have enough to do.
std::int64_t rows_per_group(const context& ctx, const row_shape& shape, std::int64_t rows, std::int64_t row_bytes);

/// How many groups of Items work-items share a work-group: one of 32 would leave half of an AMD wave idle, and a GPU
/// holds a limited number of work-groups at a time.
template <int Items>
std::int64_t groups_together(const context& ctx) {
  constexpr std::int64_t work_items = Items == 1 ? 1 : 128;
  return std::max<std::int64_t>(std::min(work_items, ctx.device().max_work_group_size) / Items, 1);
}

/// Launches `groups` groups of Items work-items, with what they need of local memory and `local_bytes` per work-group.
/// Several groups share a work-group if the kernel has a member `busy_groups`, which becomes `groups`.
template <int Items, class Kernel>
void launch_groups(operation& op, std::int64_t groups, Kernel kernel, step_order order = step_order::next,
                   std::size_t local_bytes = 0) {
  std::int64_t together = 1;
  if constexpr (requires { kernel.busy_groups; }) {
    kernel.busy_groups = groups;
    together = groups_together<Items>(op.ctx());
  }
  op.launch(groups_of(ceil_div(groups, together), together * Items),
            static_cast<std::size_t>(together) * kernels::group<Items>::local_bytes + local_bytes, kernel, order);
}

/// The rows of a launch.
struct row_set {
  std::int64_t rows, columns;
  bool neighbours;             ///< the last stride of all operands is 1
  std::int64_t row_bytes = 0;  ///< that a row reads; 0: one number per column
};

/// Launches make.operator()<W, Items>(), a kernel for numbers of type T, over all rows; sets its rows_per_group.
template <class T, class Make>
void launch_rows(operation& op, const row_set& set, Make make) {
  const std::int64_t row_bytes = set.row_bytes > 0 ? set.row_bytes : set.columns * static_cast<std::int64_t>(sizeof(T));
  const row_shape shape = choose_row_shape(op.ctx().layout(), set.columns, set.neighbours);
  dispatch_rows<T>(shape, [&]<int W, int Items>() {
    auto kernel = make.template operator()<W, Items>();
    kernel.rows_per_group = rows_per_group(op.ctx(), shape, set.rows, row_bytes);
    launch_groups<Items>(op, ceil_div(set.rows, kernel.rows_per_group), kernel);
  });
}

}  // namespace nullscope::detail

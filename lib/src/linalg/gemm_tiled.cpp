#include "kernels/linalg/gemm_tiled.hpp"

#include <algorithm>
#include <nullscope/core/operation.hpp>
#include <utility>

#include "lib/src/core/dispatch.hpp"
#include "lib/src/core/ranges.hpp"
#include "lib/src/linalg/gemm_paths.hpp"

namespace nullscope::detail {
namespace {

using kernels::gemm_shape;

// Template arguments: lanes, rows and packs of a tile, work-items along columns and rows, depth of a block of k.
template <class T>
using gemm_shapes = shape_list<shape_for<64, gemm_shape<64 / sizeof(T), 8, 3, 1, 1, 256>>,
                               shape_for<32, gemm_shape<32 / sizeof(T), 6, 2, 1, 1, 256>>,
                               // In double, 8 rows spill registers on Intel GPUs.
                               shape_for<0, gemm_shape<1, sizeof(T) == 8 ? 4 : 8, 4, 16, 16, 16>>>;

/// Whether local memory holds one panel of rows, and the columns that it meets.
template <class Shape, class In, class T>
bool fits(const lane_layout& layout) {
  return std::cmp_less_equal(kernels::gemm_tiled<In, T, Shape>::local_bytes(1), layout.local_bytes);
}

template <class Shape, class In, class T>
void launch_shape(operation& op, const gemm_call<In, T>& call) {
  using kernel = kernels::gemm_tiled<In, T, Shape>;
  const std::int64_t batch = call.c.extent[0];
  const std::int64_t row_panels = ceil_div(call.c.extent[1], Shape::rows);
  const std::int64_t column_panels = ceil_div(call.c.extent[2], Shape::panel_columns);
  gemm_plan plan{ceil_div(row_panels, Shape::item_rows), column_panels};
  if constexpr (Shape::work_items == 1) {
    std::int64_t most_row_panels = 1;
    while (std::cmp_less_equal(kernel::local_bytes(most_row_panels + 1), op.ctx().layout().local_bytes)) {
      ++most_row_panels;
    }
    plan = plan_gemm({batch, row_panels, column_panels, most_row_panels, Shape::rows, Shape::panel_columns},
                     op.ctx().device().compute_units);
  }
  const std::int64_t panels = ceil_div(row_panels, plan.row_blocks);
  const std::int64_t groups = batch * plan.row_blocks * plan.column_blocks;
  op.launch(groups_of(groups, Shape::work_items), kernel::local_bytes(panels),
            kernel{call.a, call.b, call.c, call.alpha, call.beta, plan.row_blocks, plan.column_blocks});
}

}  // namespace

gemm_plan plan_gemm(const gemm_extent& extent, std::int64_t compute_units) {
  // To bring an element into local memory takes about as long as this many multiplications.
  constexpr double staging = 12;
  const auto cost = [&](const gemm_plan& plan) {
    const auto rows = static_cast<double>(ceil_div(extent.row_panels, plan.row_blocks) * extent.panel_rows);
    const auto columns = static_cast<double>(ceil_div(extent.column_panels, plan.column_blocks) * extent.panel_columns);
    const std::int64_t rounds = ceil_div(extent.batch * plan.row_blocks * plan.column_blocks, compute_units);
    return static_cast<double>(rounds) * (rows * columns + staging * (rows + columns));
  };
  const std::int64_t fewest_row_blocks = ceil_div(extent.row_panels, extent.most_row_panels);
  gemm_plan best{fewest_row_blocks, 1};
  for (std::int64_t columns = 1; columns <= std::min(extent.column_panels, compute_units); ++columns) {
    // As few row blocks as fit, and as many as then keep every compute unit busy to the end.
    const std::int64_t rounds = ceil_div(extent.batch * columns * fewest_row_blocks, compute_units);
    const std::int64_t most_row_blocks = std::min(rounds * compute_units / (extent.batch * columns), extent.row_panels);
    for (const gemm_plan plan : {gemm_plan{fewest_row_blocks, columns}, gemm_plan{most_row_blocks, columns}}) {
      if (plan.row_blocks >= fewest_row_blocks && cost(plan) < cost(best)) best = plan;
    }
  }
  return best;
}

template <class In, class T>
void gemm_tiled(operation& op, const gemm_call<In, T>& call) {
  if (call.c.stride[2] != 1 && call.c.stride[1] == 1) {  // then c^T has rows to store vectors into
    return gemm_tiled(op, transposed(call));
  }
  const lane_layout& layout = op.ctx().layout();
  dispatch_shape<gemm_shapes<T>>(
      layout, [&]<class Shape>() { return fits<Shape, In, T>(layout); },
      [&]<class Shape>() { launch_shape<Shape>(op, call); });
}

template void gemm_tiled(operation&, const gemm_call<float, float>&);
template void gemm_tiled(operation&, const gemm_call<double, double>&);
template void gemm_tiled(operation&, const gemm_call<bfloat16, float>&);

}  // namespace nullscope::detail

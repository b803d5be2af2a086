/// The implementations that gemm chooses from. All take validated operands with the same batch extent and a c that is
/// not empty.
#pragma once

#include <cstdint>
#include <nullscope/core/bfloat16.hpp>
#include <nullscope/core/operation.hpp>
#include <nullscope/core/view.hpp>
#include <sycl/sycl.hpp>

#include "lib/src/vendor/gemm_call.hpp"

namespace nullscope::detail {

/// The register-blocked kernel, for any strides on any device.
template <class In, class T>
void gemm_tiled(operation& op, const gemm_call<In, T>& call);

/// How the tiled kernel cuts c when a work-group is one work-item: each matrix into row_blocks x column_blocks, one
/// work-group each.
struct gemm_plan {
  std::int64_t row_blocks, column_blocks;
};

/// What a plan is made from; panels are rows and columns of register tiles.
struct gemm_extent {
  std::int64_t batch, row_panels, column_panels;
  std::int64_t most_row_panels;  // that fit the local memory of a work-group
  std::int64_t panel_rows, panel_columns;
};

/// The plan for a device that runs `compute_units` work-groups at a time.
gemm_plan plan_gemm(const gemm_extent& extent, std::int64_t compute_units);

}  // namespace nullscope::detail

/// The ways that gemm can go. All take validated operands with the same batch extent, none of them empty in c.
#pragma once

#include <cstdint>
#include <nullscope/bfloat16.hpp>
#include <nullscope/view.hpp>
#include <sycl/sycl.hpp>
#include <vector>

namespace nullscope::detail {

/// The operands of one call: c = alpha a b + beta c.
template <class In, class T>
struct gemm_call {
  T alpha;
  view<const In, 3> a, b;
  T beta;
  view<T, 3> c;
};

/// The same call for c^T = b^T a^T.
template <class In, class T>
gemm_call<In, T> transposed(const gemm_call<In, T>& call) {
  return {call.alpha, nullscope::transposed(call.b), nullscope::transposed(call.a), call.beta,
          nullscope::transposed(call.c)};
}

/// oneMKL was built in and serves the device.
bool onemkl_serves(const sycl::device& device);

/// oneMKL can express the strides: each matrix has unit stride in one direction and does not overlap itself.
template <class In, class T>
bool onemkl_can_express(const gemm_call<In, T>& call);

/// Needs both of the above.
template <class In, class T>
sycl::event gemm_onemkl(sycl::queue& queue, const gemm_call<In, T>& call, const std::vector<sycl::event>& dependencies);

/// How a work-item of the tiled kernel computes: with vectors of 512 or 256 bits (CPUs), or as one lane among many
/// work-items (GPUs).
enum class gemm_lanes { vectors_512, vectors_256, work_items };

gemm_lanes preferred_gemm_lanes(const sycl::device& device);

/// The packed, register-blocked kernel, for any strides on any device.
template <class In, class T>
sycl::event gemm_tiled(sycl::queue& queue, const gemm_call<In, T>& call, gemm_lanes lanes,
                       const std::vector<sycl::event>& dependencies);

/// How the tiled kernel cuts c for CPUs: each matrix into row_blocks x column_blocks, one work-group each.
struct gemm_plan {
  std::int64_t row_blocks, column_blocks;
};

/// What a plan is made from; panels are rows and columns of register tiles.
struct gemm_extent {
  std::int64_t batch, row_panels, column_panels;
  std::int64_t most_row_panels;  // that fit the local memory of a work-group
  std::int64_t panel_rows, panel_columns;
};

/// The cut for a device that runs `compute_units` work-groups at a time.
gemm_plan plan_gemm(const gemm_extent& extent, std::int64_t compute_units);

}  // namespace nullscope::detail

/// gemm on a device's matrix engine, bfloat16 in and float out. The factors are packed into the caller's scratchpad
/// first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nullscope/bfloat16.hpp>
#include <nullscope/device.hpp>
#include <nullscope/view.hpp>
#include <optional>
#include <span>
#include <sycl/sycl.hpp>
#include <vector>

namespace nullscope::detail {

/// The tiles that there are kernels for: m x n x k, the sub-group that works on them, and whether b lies in pairs of
/// rows.
enum class joint_matrix_tile {
  m16_n16_k32,         ///< AMX; sub-groups of 16, pairs
  m8_n16_k16,          ///< XMX of Intel's data-centre and newer GPUs; sub-groups of 16, pairs
  m8_n8_k16,           ///< XMX of the first Arc GPUs; sub-groups of 8, pairs
  m16_n16_k16_sub_32,  ///< tensor cores; sub-groups of 32, b row-major
  m16_n16_k16_sub_64,  ///< matrix cores; sub-groups of 64, b row-major
};

/// How a product is cut.
struct gemm_joint_matrix_plan {
  joint_matrix_tile tile;
  std::int64_t block_rows, block_columns;  ///< panels of two tiles that a work-group computes
  std::int64_t block_steps;                ///< tiles along k that are summed before the next pair of panels
  std::int64_t pack_items;                 ///< work-items of a work-group that packs; 1: with vectors
};

/// The tile that suits the device best; nothing if it has none that fits, too little local memory for one pair of
/// panels, or if this build has no joint_matrix.
std::optional<joint_matrix_tile> gemm_joint_matrix_tile(const device_properties& device);

inline bool gemm_joint_matrix_serves(const device_properties& device) {
  return gemm_joint_matrix_tile(device).has_value();
}

/// The local memory that a work-group of the product needs.
std::int64_t gemm_joint_matrix_local_bytes(const gemm_joint_matrix_plan& plan);

/// The plan for c (batch, m, n) += a (batch, m, k) b, which fits the local memory; the device must be served.
gemm_joint_matrix_plan plan_gemm_joint_matrix(const device_properties& device, std::int64_t batch, std::int64_t m,
                                              std::int64_t n, std::int64_t k);

/// Bytes that gemm_joint_matrix needs for a (batch, m, k) and b (batch, k, n): about as many as a and b have. An
/// operand with batch stride 0 counts once.
std::int64_t gemm_joint_matrix_scratchpad_size(const gemm_joint_matrix_plan& plan, const view<const bfloat16, 3>& a,
                                               const view<const bfloat16, 3>& b);
std::int64_t gemm_joint_matrix_scratchpad_size(const device_properties& device, const view<const bfloat16, 3>& a,
                                               const view<const bfloat16, 3>& b);

/// c = alpha a b + beta c, any strides; beta = 0 does not read c. Takes validated operands of one batch extent with
/// alpha != 0, k > 0 and c not empty, a device that is served, a plan that fits its local memory, and a scratchpad of
/// the size above.
sycl::event gemm_joint_matrix(sycl::queue& queue, const gemm_joint_matrix_plan& plan, float alpha,
                              view<const bfloat16, 3> a, view<const bfloat16, 3> b, float beta, view<float, 3> c,
                              std::span<std::byte> scratchpad, const std::vector<sycl::event>& dependencies);
sycl::event gemm_joint_matrix(sycl::queue& queue, float alpha, view<const bfloat16, 3> a, view<const bfloat16, 3> b,
                              float beta, view<float, 3> c, std::span<std::byte> scratchpad,
                              const std::vector<sycl::event>& dependencies);

}  // namespace nullscope::detail

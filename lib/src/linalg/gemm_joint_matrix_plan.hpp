/// gemm on a device's matrix engine, bfloat16 in and float out. The factors are first copied tile by tile into the
/// workspace.
#pragma once

#include <cstdint>
#include <nullscope/core/bfloat16.hpp>
#include <nullscope/core/device.hpp>
#include <nullscope/core/operation.hpp>
#include <optional>

#include "lib/src/linalg/gemm_paths.hpp"

namespace nullscope::detail {

/// The tiles for which there are kernels: m x n x k, the sub-group that works on them, and whether b is stored in pairs
/// of rows.
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
  std::int64_t copy_items;                 ///< work-items of a work-group that copies tiles; 1: with vectors
};

/// The tile that suits the device best. Nothing if the device has none of them or too little local memory for one pair
/// of panels, or if this build has no joint_matrix.
std::optional<joint_matrix_tile> gemm_joint_matrix_tile(const device_properties& device);

/// Takes the tiles from the device's list that a kernel for this one would use.
void remove_tile(device_properties& device, joint_matrix_tile tile);

inline bool gemm_joint_matrix_serves(const device_properties& device) {
  return gemm_joint_matrix_tile(device).has_value();
}

/// The local memory that a work-group of the product needs.
std::int64_t gemm_joint_matrix_local_bytes(const gemm_joint_matrix_plan& plan);

/// The plan for c (batch, m, n) += a (batch, m, k) b, which fits the local memory of the layout. The device must have
/// such a tile.
gemm_joint_matrix_plan plan_gemm_joint_matrix(const device_properties& device, const lane_layout& layout,
                                              std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k);

/// c = alpha a b + beta c, any strides; beta = 0 does not read c. Takes validated operands of one batch extent with
/// alpha != 0, k > 0 and c not empty, and a device that is served. An operand with batch stride 0 is copied once.
void gemm_joint_matrix(operation& op, const gemm_call<bfloat16, float>& call);

/// With a plan that fits the local memory.
void gemm_joint_matrix(operation& op, const gemm_call<bfloat16, float>& call, const gemm_joint_matrix_plan& plan);

}  // namespace nullscope::detail

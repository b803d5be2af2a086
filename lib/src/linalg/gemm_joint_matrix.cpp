#include <algorithm>
#include <nullscope/core/errors.hpp>
#include <nullscope/core/operation.hpp>

#include "lib/src/core/dispatch.hpp"
#include "lib/src/core/ranges.hpp"
#include "lib/src/linalg/gemm_joint_matrix_plan.hpp"
#include "lib/src/linalg/joint_matrix_check.hpp"
#include "lib/src/linalg/tile_operand.hpp"
#ifdef SYCL_EXT_ONEAPI_MATRIX
#include "kernels/linalg/gemm_joint_matrix.hpp"
#endif

namespace nullscope::detail {
namespace {

struct tile_shape {
  joint_matrix_tile tile;
  std::int64_t m, n, k, sub_group;
};

/// In the order of preference.
constexpr tile_shape known_tiles[] = {
    {joint_matrix_tile::m16_n16_k32, 16, 16, 32, 16},
    {joint_matrix_tile::m8_n16_k16, 8, 16, 16, 16},
    {joint_matrix_tile::m8_n8_k16, 8, 8, 16, 8},
    {joint_matrix_tile::m16_n16_k16_sub_32, 16, 16, 16, 32},
    {joint_matrix_tile::m16_n16_k16_sub_64, 16, 16, 16, 64},
};

const tile_shape& shape_of(joint_matrix_tile tile) {
  return *std::find_if(std::begin(known_tiles), std::end(known_tiles), [&](const auto& t) { return t.tile == tile; });
}

/// A tile of zeros, and 2 x 2 tiles for each pair of panels.
std::int64_t local_bytes(const tile_shape& tile, std::int64_t panel_pairs) {
  return (4 * panel_pairs + 1) * tile.m * tile.n * static_cast<std::int64_t>(sizeof(float));
}

/// The engine multiplies tiles of this shape: exactly, or as one of all the sizes up to its largest.
bool fits(const tile_shape& wanted, const matrix_tile& offered) {
  const auto is_size = [](std::int64_t size, std::int64_t exact, std::int64_t most) {
    return exact == 0 ? size <= most : size == exact;
  };
  return is_size(wanted.m, offered.m, offered.max_m) && is_size(wanted.n, offered.n, offered.max_n) &&
         is_size(wanted.k, offered.k, offered.max_k);
}

#ifdef SYCL_EXT_ONEAPI_MATRIX

/// A factor (batch, outer, k); one matrix if the whole batch shares it.
kernels::tile_operand operand(const view<const bfloat16, 3>& x, std::int64_t tile_outer, std::int64_t tile_k) {
  kernels::tile_operand result = tile_operand_of(x, tile_outer, tile_k);
  if (x.stride[0] == 0) result.from.extent[0] = 1;
  return result;
}

std::int64_t packed_elements(const kernels::tile_operand& x, std::int64_t tile_outer, std::int64_t tile_k) {
  return detail::packed_elements(x.from.extent[1], x.from.extent[2], tile_outer, tile_k);
}

template <int M, int N, int K, bool PairedB, int W>
using copy_kernel = kernels::to_tiles<M, kernels::tile_order::outer_k, N,
                                      PairedB ? kernels::tile_order::pairs : kernels::tile_order::k_outer, K, W>;

template <int M, int N, int K, int SubGroup, bool PairedB>
void launch_tile(operation& op, const gemm_call<bfloat16, float>& call, const gemm_joint_matrix_plan& plan) {
  kernels::tile_operand a = operand(call.a, M, K), b = operand(transposed(call.b), N, K);
  a.to = op.take_array<bfloat16>(a.from.extent[0], packed_elements(a, M, K)).data;
  b.to = op.take_array<bfloat16>(b.from.extent[0], packed_elements(b, N, K)).data;
  const sycl::nd_range<1> units = groups_of(a.units() + b.units(), plan.copy_items);
  dispatch_vectors(plan.copy_items == 1 ? 64 : 0, [&]<int Bytes>() {
    op.launch(units, 0, copy_kernel < M, N, K, PairedB, Bytes == 0 ? 1 : 16 > {a, b});
  });

  // GPUs want tiles of c aligned when they store them; AMX does not care.
  constexpr std::int64_t row_floats = 16;
  const view<float, 3>& c = call.c;
  const bool is_aligned =
      plan.tile == joint_matrix_tile::m16_n16_k32 || (reinterpret_cast<std::uintptr_t>(c.data) % 64 == 0 &&
                                                      c.stride[0] % row_floats == 0 && c.stride[1] % row_floats == 0);
  kernels::gemm_joint_matrix<M, N, K, SubGroup, PairedB> product{};
  product.a = a.to;
  product.b = b.to;
  product.c = c;
  product.alpha = call.alpha;
  product.beta = call.beta;
  product.is_plain = call.alpha == 1 && call.beta == 0 && c.stride[2] == 1 && is_aligned;
  product.a_batch_stride = a.from.extent[0] == 1 ? 0 : packed_elements(a, M, K);
  product.b_batch_stride = b.from.extent[0] == 1 ? 0 : packed_elements(b, N, K);
  product.steps = a.steps;
  product.block_steps = plan.block_steps;
  product.block_rows = plan.block_rows;
  product.block_columns = plan.block_columns;
  product.grid = {ceil_div(a.panels, plan.block_rows), ceil_div(b.panels, plan.block_columns)};
  op.launch(groups_of(product.grid.groups(c.extent[0]), SubGroup),
            static_cast<std::size_t>(gemm_joint_matrix_local_bytes(plan)), product);
}

#endif

}  // namespace

std::optional<joint_matrix_tile> gemm_joint_matrix_tile([[maybe_unused]] const device_properties& device) {
#ifdef SYCL_EXT_ONEAPI_MATRIX
  for (const tile_shape& wanted : known_tiles) {
    const auto& sizes = device.sub_group_sizes;
    if (std::find(sizes.begin(), sizes.end(), wanted.sub_group) == sizes.end()) continue;
    if (local_bytes(wanted, 1) > device.usable_local_bytes()) continue;
    const auto& offered = device.bf16_tiles;
    if (std::any_of(offered.begin(), offered.end(), [&](const matrix_tile& t) { return fits(wanted, t); })) {
      return wanted.tile;
    }
  }
#endif
  return std::nullopt;
}

void remove_tile(device_properties& device, joint_matrix_tile tile) {
  std::erase_if(device.bf16_tiles, [&](const matrix_tile& offered) { return fits(shape_of(tile), offered); });
}

std::int64_t gemm_joint_matrix_local_bytes(const gemm_joint_matrix_plan& plan) {
  return local_bytes(shape_of(plan.tile), plan.block_rows * plan.block_columns);
}

gemm_joint_matrix_plan plan_gemm_joint_matrix(const device_properties& device, const lane_layout& layout,
                                              std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k) {
  gemm_joint_matrix_plan plan{gemm_joint_matrix_tile(device).value(), 1, 1, 1, 1};
  const tile_shape& tile = shape_of(plan.tile);
  const std::int64_t steps = ceil_div(k, tile.k);
  if (!layout.has_vectors()) {  // many small work-groups hide latencies, and the sums stay in registers
    plan.block_steps = steps;
    plan.copy_items = 64;
    return plan;
  }
  // The whole of k at once up to 64 steps of AMX; longer sums in blocks.
  constexpr std::int64_t most_rows = 8, most_columns = 4, most_steps = 64, groups_per_unit = 4;
  const auto cut = [](std::int64_t count, std::int64_t most) { return ceil_div(count, ceil_div(count, most)); };
  const std::int64_t row_panels = ceil_div(m, 2 * tile.m), column_panels = ceil_div(n, 2 * tile.n);
  plan.block_steps = steps <= most_steps ? steps : cut(steps, most_steps / 2);
  plan.block_rows = cut(row_panels, most_rows);
  plan.block_columns = cut(column_panels, most_columns);
  const auto groups = [&] {
    return batch * ceil_div(row_panels, plan.block_rows) * ceil_div(column_panels, plan.block_columns);
  };
  const auto is_too_large = [&] {
    return groups() < groups_per_unit * device.compute_units ||
           gemm_joint_matrix_local_bytes(plan) > layout.local_bytes;
  };
  while (plan.block_rows * plan.block_columns > 1 && is_too_large()) {
    std::int64_t& larger = plan.block_rows >= plan.block_columns ? plan.block_rows : plan.block_columns;
    larger = ceil_div(larger, 2);
  }
  return plan;
}

void gemm_joint_matrix([[maybe_unused]] operation& op, [[maybe_unused]] const gemm_call<bfloat16, float>& call,
                       [[maybe_unused]] const gemm_joint_matrix_plan& plan) {
#ifdef SYCL_EXT_ONEAPI_MATRIX
  if (call.c.stride[1] == 1 && call.c.stride[2] != 1) {  // then c^T has rows to store tiles into
    return gemm_joint_matrix(op, transposed(call), plan);
  }
  switch (plan.tile) {
    case joint_matrix_tile::m16_n16_k32: return launch_tile<16, 16, 32, 16, true>(op, call, plan);
    case joint_matrix_tile::m8_n16_k16: return launch_tile<8, 16, 16, 16, true>(op, call, plan);
    case joint_matrix_tile::m8_n8_k16: return launch_tile<8, 8, 16, 8, true>(op, call, plan);
    case joint_matrix_tile::m16_n16_k16_sub_32: return launch_tile<16, 16, 16, 32, false>(op, call, plan);
    case joint_matrix_tile::m16_n16_k16_sub_64: return launch_tile<16, 16, 16, 64, false>(op, call, plan);
  }
#endif
  throw unsupported_device("gemm: this build has no joint_matrix");
}

void gemm_joint_matrix(operation& op, const gemm_call<bfloat16, float>& call) {
  const view<float, 3>& c = call.c;
  gemm_joint_matrix(op, call,
                    plan_gemm_joint_matrix(tested_properties(op.ctx()), op.ctx().layout(), c.extent[0], c.extent[1],
                                           c.extent[2], call.a.extent[2]));
}

}  // namespace nullscope::detail

#include <algorithm>
#include <nullscope/errors.hpp>
#include <nullscope/launch.hpp>

#include "gemm_joint_matrix_plan.hpp"
#include "scratchpad.hpp"
#include "team_shape.hpp"
#include "tile_operand.hpp"
#ifdef SYCL_EXT_ONEAPI_MATRIX
#include "gemm_joint_matrix.hpp"
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
[[maybe_unused]] bool fits(const tile_shape& wanted, const matrix_tile& offered) {
  const auto is_size = [](std::int64_t size, std::int64_t exact, std::int64_t most) {
    return exact == 0 ? size <= most : size == exact;
  };
  return is_size(wanted.m, offered.m, offered.max_m) && is_size(wanted.n, offered.n, offered.max_n) &&
         is_size(wanted.k, offered.k, offered.max_k);
}

/// A factor (batch, outer, k); one matrix if the whole batch shares it.
kernels::tile_operand operand(const view<const bfloat16, 3>& x, std::int64_t tile_outer, std::int64_t tile_k) {
  kernels::tile_operand result = tile_operand_of(x, tile_outer, tile_k);
  if (x.stride[0] == 0) result.from.extent[0] = 1;
  return result;
}

std::int64_t packed_elements(const kernels::tile_operand& x, std::int64_t tile_outer, std::int64_t tile_k) {
  return detail::packed_elements(x.from.extent[1], x.from.extent[2], tile_outer, tile_k);
}

#ifdef SYCL_EXT_ONEAPI_MATRIX

template <int M, int N, int K, bool PackedB, int W>
using packing = kernels::pack_tiles<M, kernels::tile_order::outer_k, N,
                                    PackedB ? kernels::tile_order::pairs : kernels::tile_order::k_outer, K, W>;

template <int M, int N, int K, int SubGroup, bool PackedB>
sycl::event run(sycl::queue& queue, const gemm_joint_matrix_plan& plan, float alpha, view<const bfloat16, 3> a,
                view<const bfloat16, 3> b, float beta, view<float, 3> c, std::span<std::byte> scratchpad,
                const std::vector<sycl::event>& dependencies) {
  kernels::tile_operand packed_a = operand(a, M, K), packed_b = operand(transposed(b), N, K);
  scratchpad_parts parts(scratchpad.data());
  packed_a.to = parts.take<bfloat16>(packed_a.from.extent[0] * packed_elements(packed_a, M, K));
  packed_b.to = parts.take<bfloat16>(packed_b.from.extent[0] * packed_elements(packed_b, N, K));
  const sycl::nd_range<1> units = groups_of(packed_a.units() + packed_b.units(), plan.pack_items);
  const sycl::event is_packed =
      plan.pack_items == 1 ? launch(queue, units, 0, packing<M, N, K, PackedB, 16>{packed_a, packed_b}, dependencies)
                           : launch(queue, units, 0, packing<M, N, K, PackedB, 1>{packed_a, packed_b}, dependencies);

  // GPUs want tiles of c aligned when they store them; AMX does not care.
  constexpr std::int64_t row_floats = 16;
  const bool is_aligned =
      queue.get_device().is_cpu() || (reinterpret_cast<std::uintptr_t>(c.data) % 64 == 0 &&
                                      c.stride[0] % row_floats == 0 && c.stride[1] % row_floats == 0);
  kernels::gemm_joint_matrix<M, N, K, SubGroup, PackedB> product{};
  product.a = packed_a.to;
  product.b = packed_b.to;
  product.c = c;
  product.alpha = alpha;
  product.beta = beta;
  product.is_plain = alpha == 1 && beta == 0 && c.stride[2] == 1 && is_aligned;
  product.a_batch_stride = packed_a.from.extent[0] == 1 ? 0 : packed_elements(packed_a, M, K);
  product.b_batch_stride = packed_b.from.extent[0] == 1 ? 0 : packed_elements(packed_b, N, K);
  product.steps = packed_a.steps;
  product.block_steps = plan.block_steps;
  product.block_rows = plan.block_rows;
  product.block_columns = plan.block_columns;
  const auto groups = [](std::int64_t count) { return static_cast<std::size_t>(count); };
  const sycl::range<3> range{groups(c.extent[0]), groups(ceil_div(packed_a.panels, plan.block_rows)),
                             groups(ceil_div(packed_b.panels, plan.block_columns) * SubGroup)};
  return launch(queue, sycl::nd_range<3>{range, {1, 1, SubGroup}}, groups(gemm_joint_matrix_local_bytes(plan)), product,
                {is_packed});
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

std::int64_t gemm_joint_matrix_local_bytes(const gemm_joint_matrix_plan& plan) {
  return local_bytes(shape_of(plan.tile), plan.block_rows * plan.block_columns);
}

gemm_joint_matrix_plan plan_gemm_joint_matrix(const device_properties& device, std::int64_t batch, std::int64_t m,
                                              std::int64_t n, std::int64_t k) {
  gemm_joint_matrix_plan plan{gemm_joint_matrix_tile(device).value(), 1, 1, 1, 1};
  const tile_shape& tile = shape_of(plan.tile);
  const std::int64_t steps = ceil_div(k, tile.k);
  if (device.kind != device_kind::cpu) {  // many small work-groups hide latencies, and the sums stay in registers
    plan.block_steps = steps;
    plan.pack_items = 64;
    return plan;
  }
  // Ladder on AMX (2 cores, oneMKL = 1, packing counted, medians of interleaved runs at n = 512, 1024, 2048):
  //   sums that start as zeros in one branch and as a load in the other: 0.7, 0.8, 0.6 (the compiler moves them between
  //     vector registers and tiles at every step); from a tile of zeros in memory, as here: 1.6, 1.4, 1.4
  //   8 x 4 panels of 32 x 32 a work-group; 4 x 4, 2 x 4, 8 x 6, 4 x 8: the same within the noise, 15 x 4: less
  //   the whole of k at once up to 2048: 1.44 at n = 2048; in blocks of 512: 1.31, of 256: 1.29;
  //     at k = 8192 the whole of k falls to 0.9, blocks of 1024 or 512 give 1.2 to 1.4
  //   all sums through local memory, c by vectors: 0.85 to 0.9 of storing whole panels from the engine
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
           gemm_joint_matrix_local_bytes(plan) > device.usable_local_bytes();
  };
  while (plan.block_rows * plan.block_columns > 1 && is_too_large()) {
    std::int64_t& larger = plan.block_rows >= plan.block_columns ? plan.block_rows : plan.block_columns;
    larger = ceil_div(larger, 2);
  }
  return plan;
}

std::int64_t gemm_joint_matrix_scratchpad_size(const gemm_joint_matrix_plan& plan, const view<const bfloat16, 3>& a,
                                               const view<const bfloat16, 3>& b) {
  const tile_shape& tile = shape_of(plan.tile);
  const auto bytes = [&](const view<const bfloat16, 3>& left, const view<const bfloat16, 3>& right) {
    const kernels::tile_operand x = operand(left, tile.m, tile.k), y = operand(right, tile.n, tile.k);
    scratchpad_parts parts;
    parts.take<bfloat16>(x.from.extent[0] * packed_elements(x, tile.m, tile.k));
    parts.take<bfloat16>(y.from.extent[0] * packed_elements(y, tile.n, tile.k));
    return parts.bytes();
  };
  // c may turn out to be transposed: then b is the left factor
  return std::max(bytes(a, transposed(b)), bytes(transposed(b), a));
}

std::int64_t gemm_joint_matrix_scratchpad_size(const device_properties& device, const view<const bfloat16, 3>& a,
                                               const view<const bfloat16, 3>& b) {
  return gemm_joint_matrix_scratchpad_size(
      plan_gemm_joint_matrix(device, a.extent[0], a.extent[1], b.extent[2], a.extent[2]), a, b);
}

sycl::event gemm_joint_matrix([[maybe_unused]] sycl::queue& queue, [[maybe_unused]] const gemm_joint_matrix_plan& plan,
                              [[maybe_unused]] float alpha, [[maybe_unused]] view<const bfloat16, 3> a,
                              [[maybe_unused]] view<const bfloat16, 3> b, [[maybe_unused]] float beta,
                              [[maybe_unused]] view<float, 3> c, [[maybe_unused]] std::span<std::byte> scratchpad,
                              [[maybe_unused]] const std::vector<sycl::event>& dependencies) {
#ifdef SYCL_EXT_ONEAPI_MATRIX
  if (c.stride[1] == 1 && c.stride[2] != 1) {  // c^T = b^T a^T has rows of neighbours
    std::swap(a, b);
    a = transposed(a);
    b = transposed(b);
    c = transposed(c);
  }
  const auto call = [&](auto run_tile) {
    return run_tile(queue, plan, alpha, a, b, beta, c, scratchpad, dependencies);
  };
  switch (plan.tile) {
    case joint_matrix_tile::m16_n16_k32: return call(run<16, 16, 32, 16, true>);
    case joint_matrix_tile::m8_n16_k16: return call(run<8, 16, 16, 16, true>);
    case joint_matrix_tile::m8_n8_k16: return call(run<8, 8, 16, 8, true>);
    case joint_matrix_tile::m16_n16_k16_sub_32: return call(run<16, 16, 16, 32, false>);
    case joint_matrix_tile::m16_n16_k16_sub_64: return call(run<16, 16, 16, 64, false>);
  }
#endif
  throw unsupported_device("gemm: this build has no joint_matrix");
}

sycl::event gemm_joint_matrix(sycl::queue& queue, float alpha, view<const bfloat16, 3> a, view<const bfloat16, 3> b,
                              float beta, view<float, 3> c, std::span<std::byte> scratchpad,
                              const std::vector<sycl::event>& dependencies) {
  const gemm_joint_matrix_plan plan =
      plan_gemm_joint_matrix(properties(queue.get_device()), c.extent[0], c.extent[1], c.extent[2], a.extent[2]);
  return gemm_joint_matrix(queue, plan, alpha, a, b, beta, c, scratchpad, dependencies);
}

}  // namespace nullscope::detail

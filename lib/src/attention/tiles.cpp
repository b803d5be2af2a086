#include "lib/src/attention/tiles.hpp"

#include "lib/src/attention/common.hpp"
#include "lib/src/linalg/gemm_joint_matrix_plan.hpp"
#include "lib/src/linalg/joint_matrix_check.hpp"
#include "lib/src/linalg/tile_operand.hpp"
#ifdef SYCL_EXT_ONEAPI_MATRIX
#include "kernels/attention/joint_matrix.hpp"
#endif

namespace nullscope::detail {

#ifdef SYCL_EXT_ONEAPI_MATRIX

namespace {

constexpr int tile_m = 16, tile_n = 16, tile_k = 32, sub_group = 16;
constexpr int key_block = 512;  // 256 keys are slower; 64 and 128 are no better than 256
constexpr int most_panels = 2;  // 4 are far slower

template <int Panels, bool KeysStay>
using tiles_kernel = kernels::attention_joint_matrix<tile_m, tile_n, tile_k, sub_group, key_block, Panels, KeysStay>;

template <int Panels>
bool fits(const context& ctx, std::int64_t dk, std::int64_t dv) {
  return tiles_kernel<Panels, false>::local_bytes(dk, dv) <= ctx.layout().local_bytes;
}

/// Elements of one matrix (outer, k) in tiles.
std::int64_t elements_in_tiles(std::int64_t outer, std::int64_t k) { return packed_elements(outer, k, tile_n, tile_k); }

/// Memory for x (batch, heads, outer, k) in tiles.
bfloat16* take_tiles(operation& op, const view<const bfloat16, 4>& x) {
  return op.take_array<bfloat16>(x.extent[0], x.extent[1], elements_in_tiles(x.extent[2], x.extent[3])).data;
}

/// Brings k and v^T (batch, heads, outer, k) into tiles.
void copy_to_tiles(operation& op, const view<const bfloat16, 4>& k, bfloat16* k_tiles, const view<const bfloat16, 4>& v,
                   bfloat16* v_tiles) {
  for_matrices(
      [&](const view<const bfloat16, 3>& keys, const view<const bfloat16, 3>& values) {
        const auto operand_of = [](const view<const bfloat16, 3>& x, bfloat16*& to) {
          kernels::tile_operand result = tile_operand_of(x, tile_n, tile_k);
          result.to = to;
          to += x.extent[0] * elements_in_tiles(x.extent[1], x.extent[2]);  // where the next batch entry goes
          return result;
        };
        constexpr auto order = kernels::tile_order::pairs;
        kernels::to_tiles<tile_n, order, tile_n, order, tile_k, 16> work{operand_of(keys, k_tiles),
                                                                         operand_of(values, v_tiles)};
        work.a.alternates = true;
        op.launch(groups_of(work.a.units() + work.b.units(), 1), 0, work);
      },
      k, v);
}

template <int Panels, bool KeysStay>
void attend(operation& op, const attention_operands<bfloat16>& operands, const attention_results<float>& results,
            const attention_options& options) {
  using work_t = tiles_kernel<Panels, KeysStay>;
  const auto& [q, k, v, bias] = operands;  // no bias here: see takes_tiles
  bfloat16 *k_tiles = take_tiles(op, k), *v_tiles = take_tiles(op, transposed(v));
  if (k.extent[2] > 0) copy_to_tiles(op, k, k_tiles, transposed(v), v_tiles);
  const std::int64_t query_blocks = ceil_div(q.extent[2], work_t::rows);
  const work_t work{.q = q,
                    .k = k_tiles,
                    .v = v_tiles,
                    .out = results.out,
                    .log_sum_exp = results.log_sum_exp,
                    .sum_of_squares = results.sum_of_squares,
                    .visibility = visibility_of(options, q.extent[2], k.extent[2]),
                    .keys = k.extent[2],
                    .scale = score_scale_of<float>(options, q.extent[3]),
                    .query_blocks = query_blocks};
  op.launch(groups_of(q.extent[0] * q.extent[1] * query_blocks, sub_group),
            static_cast<std::size_t>(work_t::local_bytes(q.extent[3], v.extent[3])), work);
}

}  // namespace

bool attention_tiles_serve(const context& ctx, std::int64_t dk, std::int64_t dv) {
  return has_cpu_layouts && ctx.layout().matrix_engine && fits<1>(ctx, dk, dv) &&
         gemm_joint_matrix_tile(tested_properties(ctx)) == joint_matrix_tile::m16_n16_k32;
}

void attention_tiles(operation& op, const attention_operands<bfloat16>& operands,
                     const attention_results<float>& results, const attention_options& options) {
  if constexpr (has_cpu_layouts) {  // the engine is a CPU's
    const std::int64_t dk = operands.q.extent[3], dv = operands.v.extent[3];
    if (!fits<most_panels>(op.ctx(), dk, dv)) {
      attend<1, false>(op, operands, results, options);
    } else if (ceil_div(dk, tile_k) == 2) {
      attend<most_panels, true>(op, operands, results, options);
    } else {
      attend<most_panels, false>(op, operands, results, options);
    }
  }
}

#else

bool attention_tiles_serve(const context&, std::int64_t, std::int64_t) { return false; }

void attention_tiles(operation&, const attention_operands<bfloat16>&, const attention_results<float>&,
                     const attention_options&) {
  throw unsupported_device("attention: this build has no joint_matrix");
}

#endif

}  // namespace nullscope::detail

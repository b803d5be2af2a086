#include "attention_tiles.hpp"

#include "attention_common.hpp"
#include "gemm_joint_matrix_plan.hpp"
#include "tile_operand.hpp"
#ifdef SYCL_EXT_ONEAPI_MATRIX
#include "attention_joint_matrix.hpp"
#endif

namespace nullscope::detail {

#ifdef SYCL_EXT_ONEAPI_MATRIX

namespace {

constexpr int tile_m = 16, tile_n = 16, tile_k = 32, sub_group = 16, key_block = 512;

// Ladder on AMX (2 cores, 12 heads of 64, S = 2048, speed against the f32 kernel in the same run):
//   lanes' addresses with a division in them: gathers and scatters, 0.8; a uniform pointer and the lane last: 1.7
//   scores from zeros in memory instead of filled tiles, the numbers of the exponential as arguments instead of
//     constants; 2 panels of queries a group: 2.2
//   no call of a library function, after each of which the tiles were set up anew; two neighbours' weights as one word
//     (even and odd keys in two tiles); sums of squares only if asked for; keys multiplied while lanes exponentiate:
//     2.0 in steps of 32 queries, 2.7 in steps of 16. The engine falls asleep when it has had nothing to do for about
//     200 ns, and takes 400 ns to wake up.
//   one of the two tiles of scores begun by a fill instead of a load (of two the compiler makes one, and copies it
//     through the stack): 1.05 times as fast; the word of two weights by shifts: 1.02; weights meet the values in
//     blocks of 512 keys instead of 256: 1.03, of 64 or 128, after them or during the next block: no better than 256
//   keys of two steps of dk stay in tiles while the queries come by, tiles set to zero in place: 1.03 (in native code
//     the tiles alone take 0.8 of the time, but they are mostly hidden behind the lanes)
//   sums of outs in tiles along all keys, 16 queries at a time: no better; values one step behind the keys, sums in
//     memory: 0.8, their stores delay loads of the lanes from addresses that agree in the low 12 bits
//   What is left is the engine: this machine gives it a quarter of its speed for seconds at a time, when loads of tiles
//     and products no longer overlap. Then 2.7 to 3.0, otherwise up to 3.9.
//   4 panels: 0.2; functions called twice that are not inlined by force: 0.3. See attention_tile_products.
template <int Panels, bool KeysStay>
using kernel = kernels::attention_joint_matrix<tile_m, tile_n, tile_k, sub_group, key_block, Panels, KeysStay>;
constexpr int most_panels = 2;

template <int Panels>
bool fits(const device_properties& device, std::int64_t dk, std::int64_t dv) {
  return kernel<Panels, false>::local_bytes(dk, dv) <= device.usable_local_bytes();
}

/// Of one matrix (outer, k) that is a right factor.
std::int64_t packed_elements(std::int64_t outer, std::int64_t k) {
  return detail::packed_elements(outer, k, tile_n, tile_k);
}

/// Batch entry number `batch` of x (batch, heads, outer, k), or all entries as one dimension with the heads.
kernels::tile_operand operand_of(const view<const bfloat16, 4>& x, std::int64_t batch, std::int64_t matrices,
                                 bfloat16* to) {
  kernels::tile_operand result = tile_operand_of(
      {x.data + batch * x.stride[0], {matrices, x.extent[2], x.extent[3]}, {x.stride[1], x.stride[2], x.stride[3]}},
      tile_n, tile_k);
  result.to = to + batch * x.extent[1] * packed_elements(x.extent[2], x.extent[3]);
  return result;
}

/// k and v^T (batch, heads, outer, k) into tiles; one launch if batch and heads make one dimension in both.
std::vector<sycl::event> pack(sycl::queue& queue, const view<const bfloat16, 4>& k, bfloat16* packed_k,
                              const view<const bfloat16, 4>& v, bfloat16* packed_v,
                              const std::vector<sycl::event>& dependencies) {
  const auto is_one_dimension = [](const view<const bfloat16, 4>& x) {
    return x.extent[0] == 1 || x.stride[0] == x.extent[1] * x.stride[1];
  };
  const bool at_once = is_one_dimension(k) && is_one_dimension(v);
  const std::int64_t calls = at_once ? 1 : k.extent[0], matrices = at_once ? k.extent[0] * k.extent[1] : k.extent[1];
  std::vector<sycl::event> packed;
  for (std::int64_t batch = 0; batch < calls; ++batch) {
    constexpr auto order = kernels::tile_order::pairs;
    kernels::pack_tiles<tile_n, order, tile_n, order, tile_k, 16> work{operand_of(k, batch, matrices, packed_k),
                                                                       operand_of(v, batch, matrices, packed_v)};
    work.a.alternates = true;
    packed.push_back(launch(queue, groups_of(work.a.units() + work.b.units(), 1), 0, work, dependencies));
  }
  return packed;
}

}  // namespace

bool attention_tiles_serve(const sycl::device& device, std::int64_t dk, std::int64_t dv) {
  const device_properties& found = properties(device);
  return found.kind == device_kind::cpu && gemm_joint_matrix_tile(found) == joint_matrix_tile::m16_n16_k32 &&
         fits<1>(found, dk, dv);
}

std::int64_t attention_tiles_scratchpad_size(const view<const bfloat16, 4>& k, const view<const bfloat16, 4>& v) {
  scratchpad_parts parts;
  const std::int64_t matrices = k.extent[0] * k.extent[1];
  parts.take<bfloat16>(matrices * packed_elements(k.extent[2], k.extent[3]));
  parts.take<bfloat16>(matrices * packed_elements(v.extent[3], v.extent[2]));
  return parts.bytes();
}

sycl::event attention_tiles(sycl::queue& queue, const view<const bfloat16, 4>& q, const view<const bfloat16, 4>& k,
                            const view<const bfloat16, 4>& v, const view<float, 4>& out,
                            const attention_row_results<float>& row_results, std::byte* scratchpad,
                            const attention_options& options, const std::vector<sycl::event>& dependencies) {
  const std::int64_t matrices = k.extent[0] * k.extent[1];
  scratchpad_parts parts(scratchpad);
  bfloat16* packed_k = parts.take<bfloat16>(matrices * packed_elements(k.extent[2], k.extent[3]));
  bfloat16* packed_v = parts.take<bfloat16>(matrices * packed_elements(v.extent[3], v.extent[2]));
  std::vector<sycl::event> packed = dependencies;
  if (k.extent[2] > 0) {
    packed = pack(queue, k, packed_k, transposed(v), packed_v, dependencies);
  }
  const auto run = [&]<int Panels, bool KeysStay>() {
    using work_t = kernel<Panels, KeysStay>;
    const std::int64_t query_blocks = ceil_div(q.extent[2], work_t::rows);
    const work_t work{q,
                      packed_k,
                      packed_v,
                      out,
                      row_results.log_sum_exp,
                      row_results.sum_of_squares,
                      visibility_of(options, q.extent[2], k.extent[2]),
                      k.extent[2],
                      score_scale_of<float>(options, q.extent[3]),
                      query_blocks};
    return launch(queue, groups_of(matrices * query_blocks, sub_group),
                  static_cast<std::size_t>(work_t::local_bytes(q.extent[3], out.extent[3])), work, packed);
  };
  if (!fits<most_panels>(properties(queue.get_device()), q.extent[3], v.extent[3])) {
    return run.template operator()<1, false>();
  }
  const bool keys_stay = ceil_div(q.extent[3], tile_k) == 2;
  return keys_stay ? run.template operator()<most_panels, true>() : run.template operator()<most_panels, false>();
}

#else

bool attention_tiles_serve(const sycl::device&, std::int64_t, std::int64_t) { return false; }

std::int64_t attention_tiles_scratchpad_size(const view<const bfloat16, 4>&, const view<const bfloat16, 4>&) {
  return 0;
}

sycl::event attention_tiles(sycl::queue&, const view<const bfloat16, 4>&, const view<const bfloat16, 4>&,
                            const view<const bfloat16, 4>&, const view<float, 4>&, const attention_row_results<float>&,
                            std::byte*, const attention_options&, const std::vector<sycl::event>&) {
  throw unsupported_device("attention: this build has no joint_matrix");
}

#endif

}  // namespace nullscope::detail

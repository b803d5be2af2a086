/// Attention with an online softmax on a matrix engine, bfloat16 in and float out. For DPC++ only; include it behind
/// SYCL_EXT_ONEAPI_MATRIX.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <nullscope/bfloat16.hpp>
#include <nullscope/view.hpp>
#include <sycl/sycl.hpp>
// not in what the run-time compiler sees as <sycl/sycl.hpp>
#include <sycl/ext/oneapi/bfloat16.hpp>
#include <sycl/ext/oneapi/matrix/matrix.hpp>

#include "address_spaces.hpp"
#include "attention_exp2.hpp"
#include "attention_shape.hpp"

namespace nullscope::kernels {

/// For one batch entry and head:  scores = scale q k^T (queries, keys), weights = softmax of the visible scores of a
/// row, out = weights v (queries, dv). A sub-group takes Panels panels of 2 M queries and walks along the keys in
/// blocks of KeyBlock; a tile of k or v is used by all panels while it is in the first level of cache. Scores and sums
/// are floats; the weights are rounded to bfloat16 before they meet the values.
///
/// k and v come from pack_tiles, as right factors of scores and of out, in tiles of K x N in pairs of rows. A group
/// brings its queries into the same order itself.
///
/// The offset of a row is the maximum of its first block, and changes only if later scores exceed it by 2^20: a row's
/// exponentials then stay far from overflow, and there is nothing to correct in nearly all blocks.
template <int M, int N, int K, int SubGroup, int KeyBlock, int Panels>
struct attention_joint_matrix {
  static constexpr const char* source = "attention_joint_matrix.hpp";
  static constexpr int dimensions = 1;
  static constexpr int sub_group_size = SubGroup;
  static constexpr int rows = Panels * 2 * M;
  static constexpr int score_stride = KeyBlock + N;  // off a power of two
  static_assert(KeyBlock % (2 * N) == 0 && KeyBlock % K == 0);

  view<const bfloat16, 4> q;                   // (batch, heads, queries, dk)
  const bfloat16* k;                           // (matrices, panels of 2 N keys, steps of dk, 2 tiles)
  const bfloat16* v;                           // (matrices, panels of 2 N columns, steps of keys, 2 tiles)
  view<float, 4> out;                          // (batch, heads, queries, dv)
  view<float, 3> log_sum_exp, sum_of_squares;  // null: not asked for
  attention_visibility visibility;
  std::int64_t keys;
  float scale;  // with log2(e)
  std::int64_t query_blocks;
  exp2_numbers exp2 = {};

  static std::int64_t padded_columns(std::int64_t dv) { return (dv + 2 * N - 1) / (2 * N) * (2 * N); }
  static std::int64_t steps_of(std::int64_t k) { return (k + K - 1) / K; }
  static std::int64_t local_bytes(std::int64_t dk, std::int64_t dv) {
    const std::int64_t floats = zero_floats + rows * (score_stride + padded_columns(dv) + N + 4 * SubGroup + 1);
    return floats * static_cast<std::int64_t>(sizeof(float)) +
           (rows * KeyBlock + b_step + Panels * steps_of(dk) * a_step) * static_cast<std::int64_t>(sizeof(bfloat16));
  }

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    const sycl::sub_group group = item.get_sub_group();
    const std::int64_t lane = static_cast<std::int64_t>(item.get_local_id(0));
    const std::int64_t matrix = static_cast<std::int64_t>(item.get_group(0)) / query_blocks;
    const std::int64_t panel = static_cast<std::int64_t>(item.get_group(0)) % query_blocks;
    const std::int64_t batch = matrix / out.extent[1], row0 = panel * rows;
    memory m(local, out.extent[3]);
    take_queries(m, batch, matrix % out.extent[1], row0, lane);
    for (std::int64_t e = 0; e < zero_floats; e += SubGroup) (m.zeros + e)[lane] = 0;
    for (std::int64_t e = 0; e < rows * m.out_stride; e += SubGroup) (m.outs + e)[lane] = 0;
    for (int r = 0; r < rows; ++r) {
      (m.sums + m.before(r))[lane] = (m.squares + m.before(r))[lane] = 0;
      if (lane == 0) m.offset[r] = lowest;
    }
    sycl::group_barrier(group);
    const std::int64_t last_row = std::min(row0 + rows, out.extent[2]) - 1;
    const std::int64_t visible = visibility.keys_of(batch, last_row, keys);
    for (std::int64_t key0 = 0; key0 < visible; key0 += KeyBlock) {
      const key_range block{matrix, batch, row0, key0,
                            static_cast<int>(std::min<std::int64_t>(KeyBlock, visible - key0))};
      multiply_keys(group, m, block);
      sycl::group_barrier(group);
      if (key0 == 0 || !exponentiate(group, m, block, lane)) {
        raise_offsets(group, m, block, lane);
        exponentiate(group, m, block, lane);
      }
      m.turn ^= 1;
      sycl::group_barrier(group);
      multiply_values(group, m, block, lane);
      sycl::group_barrier(group);
    }
    for (int r = 0; r < rows && row0 + r < out.extent[2]; ++r) finish(group, m, matrix, row0 + r, r, lane);
  }

 private:
  using element = sycl::ext::oneapi::bfloat16;
  static constexpr float infinity = std::numeric_limits<float>::infinity();
  static constexpr float lowest = -1e38f;  // any score that is no -inf exceeds it; -inf less it is -inf still
  static constexpr int zero_floats = (M + 3) * N;
  static constexpr int a_step = 2 * M * K, b_step = 2 * K * N;  // elements
  static constexpr int panel_weights = KeyBlock / K * a_step;

  struct memory {
    memory(std::byte* local, std::int64_t dv) : out_stride(padded_columns(dv) + N) {
      zeros = reinterpret_cast<float*>(local);
      scores = zeros + zero_floats;
      outs = scores + rows * score_stride;
      sums = outs + rows * out_stride;
      squares = sums + 2 * rows * SubGroup;
      offset = squares + 2 * rows * SubGroup;
      weights = reinterpret_cast<bfloat16*>(offset + rows);
      values = weights + rows * KeyBlock;
      queries = values + b_step;
    }
    std::int64_t out_stride;
    float* zeros;           // (M + 3, N): four tiles, each a row after the one before
    float* scores;          // (rows, score_stride)
    float* outs;            // (rows, out_stride)
    float *sums, *squares;  // (2, rows, lanes): before and after the block, in turn
    float* offset;          // (rows)
    bfloat16* weights;      // (KeyBlock / K steps, 2, M, K)
    bfloat16* values;       // (2, K, N): a step of values whose end is masked
    bfloat16* queries;      // (steps of dk, 2, M, K)
    int turn = 0;

    std::int64_t before(int r) const { return (turn * rows + r) * SubGroup; }
    std::int64_t after(int r) const { return ((turn ^ 1) * rows + r) * SubGroup; }
  };

  /// A block of keys, and the queries that meet it.
  struct key_range {
    std::int64_t matrix, batch, row0, key0;
    int count;
  };

  int seen_by(const key_range& block, int r) const {
    const std::int64_t seen = visibility.keys_of(block.batch, block.row0 + r, keys) - block.key0;
    return static_cast<int>(std::clamp<std::int64_t>(seen, 0, block.count));
  }

  void take_queries(const memory& m, std::int64_t batch, std::int64_t head, std::int64_t row0,
                    std::int64_t lane) const {
    const std::int64_t dk = q.extent[3];
    for (int r = 0; r < rows; ++r) {
      const bool is_inside = row0 + r < q.extent[2];
      const bfloat16* from = is_inside ? &q(batch, head, row0 + r, 0) : q.data;
      for (std::int64_t c = 0; c < steps_of(dk) * K; c += SubGroup) {
        bfloat16* to = m.queries + (r / (2 * M) * steps_of(dk) + c / K) * a_step + r % (2 * M) * K + c % K;
        const bool is_number = is_inside && c + lane < dk;
        // Neighbours are an own case, which compilers load at once.
        const std::uint16_t bits = !is_number         ? std::uint16_t(0)
                                   : q.stride[3] == 1 ? (from + c)[lane].bits
                                                      : from[(c + lane) * q.stride[3]].bits;
        to[lane].bits = bits;
      }
    }
  }

  /// 2 x 2 tiles at `to` = a (2 M, steps K) b (steps K, 2 N), added to what is there, or if FromZero to zeros. (AMX:
  /// filled with zeros, or loaded from one place, the compiler makes one tile of them and copies it through the stack.)
  template <bool FromZero, class A, class B>
  static void multiply(sycl::sub_group group, A a, B b, std::int64_t steps, const float* zeros, float* to,
                       std::int64_t stride) {
    namespace matrix = sycl::ext::oneapi::experimental::matrix;
    using sycl::ext::oneapi::experimental::matrix::layout;
    matrix::joint_matrix<sycl::sub_group, float, matrix::use::accumulator, M, N> c00, c01, c10, c11;
    const float* from = FromZero ? zeros : to;
    const std::int64_t from_stride = FromZero ? N : stride, right = N, below = FromZero ? 2 * N : M * stride;
    matrix::joint_matrix_load(group, c00, in_local(from), from_stride, layout::row_major);
    matrix::joint_matrix_load(group, c01, in_local(from + right), from_stride, layout::row_major);
    matrix::joint_matrix_load(group, c10, in_local(from + below), from_stride, layout::row_major);
    matrix::joint_matrix_load(group, c11, in_local(from + below + right), from_stride, layout::row_major);
    for (std::int64_t s = 0; s < steps; ++s) {
      matrix::joint_matrix<sycl::sub_group, element, matrix::use::a, M, K, layout::row_major> a0, a1;
      matrix::joint_matrix<sycl::sub_group, element, matrix::use::b, K, N, layout::ext_intel_packed> b0, b1;
      matrix::joint_matrix_load(group, a0, a + s * a_step, K);
      matrix::joint_matrix_load(group, b0, b + s * b_step, 2 * N);
      matrix::joint_matrix_load(group, b1, b + (s * b_step + K * N), 2 * N);
      matrix::joint_matrix_load(group, a1, a + (s * a_step + M * K), K);
      matrix::joint_matrix_mad(group, c00, a0, b0, c00);
      matrix::joint_matrix_mad(group, c01, a0, b1, c01);
      matrix::joint_matrix_mad(group, c10, a1, b0, c10);
      matrix::joint_matrix_mad(group, c11, a1, b1, c11);
    }
    matrix::joint_matrix_store(group, c00, in_local(to), stride, layout::row_major);
    matrix::joint_matrix_store(group, c01, in_local(to + N), stride, layout::row_major);
    matrix::joint_matrix_store(group, c10, in_local(to + M * stride), stride, layout::row_major);
    matrix::joint_matrix_store(group, c11, in_local(to + M * stride + N), stride, layout::row_major);
  }

  /// scores (rows, count) = q k^T, without the scale
  void multiply_keys(sycl::sub_group group, const memory& m, const key_range& block) const {
    const std::int64_t steps = steps_of(q.extent[3]), panels_of_keys = (keys + 2 * N - 1) / (2 * N);
    const auto* a = reinterpret_cast<const element*>(m.queries);
    const auto* b =
        reinterpret_cast<const element*>(k) + (block.matrix * panels_of_keys + block.key0 / (2 * N)) * steps * b_step;
    for (int column = 0; column < block.count; column += 2 * N, b += steps * b_step) {
      for (int panel = 0; panel < Panels; ++panel) {
        multiply<true>(group, in_local(a + panel * steps * a_step), in_global(b), steps, m.zeros,
                       m.scores + panel * 2 * M * score_stride + column, score_stride);
      }
    }
  }

  /// The offset of each row becomes its largest score so far; sums and outs follow.
  void raise_offsets(sycl::sub_group group, const memory& m, const key_range& block, std::int64_t lane) const {
    for (int r = 0; r < rows; ++r) {
      const int seen = seen_by(block, r);
      float largest = -infinity;
      for (int c = 0; c < seen; c += SubGroup) {
        const float x = scale * (m.scores + r * score_stride + c)[lane];
        largest = c + lane < seen ? sycl::fmax(largest, x) : largest;
      }
      largest = sycl::reduce_over_group(group, largest, sycl::maximum<float>());
      const float before = m.offset[r], after = sycl::fmax(before, largest);
      if (!(after > before)) continue;
      const float correction = sycl::exp2(before - after);
      (m.sums + m.before(r))[lane] *= correction;
      (m.squares + m.before(r))[lane] *= correction * correction;
      for (std::int64_t c = 0; c < m.out_stride; c += SubGroup) (m.outs + r * m.out_stride + c)[lane] *= correction;
      sycl::group_barrier(group);  // all lanes have read the offset
      if (lane == 0) m.offset[r] = after;
    }
    sycl::group_barrier(group);
  }

  /// weights (rows, count) = 2^(scale scores - offset), 0 where not visible, and the sums with them. Returns false if
  /// a score was too large for the offset.
  bool exponentiate(sycl::sub_group group, const memory& m, const key_range& block, std::int64_t lane) const {
    const int padded = (block.count + K - 1) / K * K;
    const exp2_numbers numbers = exp2;
    float excess = -infinity;
    for (int r = 0; r < rows; ++r) {
      const int seen = seen_by(block, r);
      const float offset = m.offset[r];
      const float* row = m.scores + r * score_stride;
      bfloat16* to = m.weights + r / (2 * M) * panel_weights + r % (2 * M) * K;
      float sum = (m.sums + m.before(r))[lane], squares = (m.squares + m.before(r))[lane];
      const auto one = [&](const float* from, bfloat16* weight, bool is_visible) {
        // Pointers are uniform and `lane` is added last: so compilers see that lanes are neighbours.
        const float score = sycl::fma(scale, from[lane], -offset);
        const float x = is_visible ? score : -infinity;
        excess = x > excess ? x : excess;
        const float e = exp2_of_score(numbers, pack<float, 1>(x)).lanes;
        sum += e;
        squares += e * e;
        // Rounded half up: a NaN of the inputs, or of arithmetic, has nothing in the bits that are added to.
        weight[lane].bits = static_cast<std::uint16_t>((std::bit_cast<std::uint32_t>(e) + 0x8000u) >> 16);
      };
      int c = 0;
      for (; c + K <= seen; c += K, to += a_step) {
#pragma unroll
        for (int j = 0; j < K; j += SubGroup) one(row + c + j, to + j, true);
      }
      for (; c < padded; c += K, to += a_step) {
#pragma unroll
        for (int j = 0; j < K; j += SubGroup) one(row + c + j, to + j, c + j + lane < seen);
      }
      (m.sums + m.after(r))[lane] = sum;
      (m.squares + m.after(r))[lane] = squares;
    }
    return !sycl::any_of_group(group, excess > 20.f);
  }

  /// outs (rows, dv) += weights (rows, count) v (count, dv)
  void multiply_values(sycl::sub_group group, const memory& m, const key_range& block, std::int64_t lane) const {
    const std::int64_t steps_of_keys = (keys + K - 1) / K;
    // Values that no query may see can be anything: with the weight 0, NaN would still be NaN.
    const int masked = block.key0 + block.count < keys ? block.count % K : 0;
    const std::int64_t steps = block.count / K + (block.count % K > 0 && masked == 0 ? 1 : 0);
    for (std::int64_t column = 0; column < out.extent[3]; column += 2 * N) {
      const element* b =
          reinterpret_cast<const element*>(v) +
          ((block.matrix * padded_columns(out.extent[3]) + column) / (2 * N) * steps_of_keys + block.key0 / K) * b_step;
      const auto* a = reinterpret_cast<const element*>(m.weights);
      for (int panel = 0; panel < Panels; ++panel) {
        multiply<false>(group, in_local(a + panel * panel_weights), in_global(b), steps, m.zeros,
                        m.outs + panel * 2 * M * m.out_stride + column, m.out_stride);
      }
      if (masked == 0) continue;
      const auto* last = reinterpret_cast<const bfloat16*>(b + steps * b_step);
      for (int e = lane; e < b_step; e += SubGroup) {
        const int key = e % (K * N) / (2 * N) * 2 + e % 2;
        m.values[e].bits = key < masked ? last[e].bits : std::uint16_t(0);
      }
      sycl::group_barrier(group);
      for (int panel = 0; panel < Panels; ++panel) {
        multiply<false>(group, in_local(a + panel * panel_weights + steps * a_step),
                        in_local(reinterpret_cast<const element*>(m.values)), 1, m.zeros,
                        m.outs + panel * 2 * M * m.out_stride + column, m.out_stride);
      }
      sycl::group_barrier(group);
    }
  }

  /// Divides row r by the sum of its exponentials and writes it. A row that sees no key gives zeros.
  void finish(sycl::sub_group group, const memory& m, std::int64_t matrix, std::int64_t row, int r,
              std::int64_t lane) const {
    const std::int64_t batch = matrix / out.extent[1], head = matrix % out.extent[1];
    const float total = sycl::reduce_over_group(group, (m.sums + m.before(r))[lane], sycl::plus<float>());
    const float factor = total == 0 ? 0.f : 1 / total;
    float* to = &out(batch, head, row, 0);
    const float* from = m.outs + r * m.out_stride;
    if (out.stride[3] == 1) {
      for (std::int64_t c = 0; c + lane < out.extent[3]; c += SubGroup) (to + c)[lane] = (from + c)[lane] * factor;
    } else {
      for (std::int64_t c = lane; c < out.extent[3]; c += SubGroup) to[c * out.stride[3]] = from[c] * factor;
    }
    if (log_sum_exp.data != nullptr && lane == 0) {
      constexpr float ln2 = 0.693147180559945f;
      log_sum_exp(batch, head, row) = total == 0 ? -infinity : (m.offset[r] + sycl::log2(total)) * ln2;
    }
    if (sum_of_squares.data == nullptr) return;
    const float squares = sycl::reduce_over_group(group, (m.squares + m.before(r))[lane], sycl::plus<float>());
    if (lane == 0) sum_of_squares(batch, head, row) = squares * factor * factor;
  }
};

}  // namespace nullscope::kernels

/// Attention with an online softmax on a matrix engine, bfloat16 in and float out. For DPC++ only; include it behind
/// SYCL_EXT_ONEAPI_MATRIX.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <nullscope/core/bfloat16.hpp>
#include <nullscope/core/view.hpp>
#include <sycl/sycl.hpp>

#include "kernels/attention/exp2.hpp"
#include "kernels/attention/shape.hpp"
#include "kernels/attention/tile_products.hpp"
#include "kernels/attention/tiles_memory.hpp"
#include "kernels/core/address_spaces.hpp"
#include "kernels/group/collectives.hpp"
#include "kernels/linalg/joint_matrix_target.hpp"

namespace nullscope::kernels {

/// Constants that make one word of two floats. They are arguments, as exp2_numbers are: a compiler that knows them
/// emits a shuffle of halves, which costs twice as much.
struct word_numbers {
  std::uint32_t half = 0x8000u, upper = 0xffff0000u;
};

/// For one batch entry and head:  scores = scale q k^T (queries, keys), weights = softmax of the visible scores of a
/// row, out = weights v (queries, dv). A sub-group takes Panels panels of 2 M queries and walks along the keys in steps
/// of K: while the matrix engine multiplies the keys of the next step, the lanes make weights of the scores of this
/// one. The weights meet the values when KeyBlock of them are there. Scores and sums are floats; the weights are
/// rounded to bfloat16 before they meet the values.
///
/// k and v come from to_tiles, as right factors of scores and of out, in tiles of K x N in pairs of rows; the first
/// tile of a step of keys holds the even keys, the second one the odd keys, so that a lane has the scores of two
/// neighbours, and their weights make one word. A group brings its queries into the order of tiles itself.
///
/// The offset of a row is the maximum of its first step, and changes only if later scores exceed it by 2^20: a row's
/// exponentials then stay far from overflow, and there is nothing to correct in nearly all steps.
///
/// KeysStay: dk is two steps of K. What is called in more than one place is inlined by force, see
/// attention_tile_products.
template <int M, int N, int K, int SubGroup, int KeyBlock, int Panels, bool KeysStay>
struct attention_joint_matrix {
  static constexpr const char* source = __FILE__;
  static constexpr int sub_group_size = SubGroup;
  using memory = attention_tiles_memory<M, N, K, SubGroup, KeyBlock, Panels>;
  static constexpr int rows = memory::rows;
  static_assert(K == 2 * N && N == SubGroup && KeyBlock % K == 0);

  view<const bfloat16, 4> q;                   // (batch, heads, queries, dk)
  const bfloat16* k;                           // (matrices, steps of keys, steps of dk, 2 tiles)
  const bfloat16* v;                           // (matrices, panels of 2 N columns, steps of keys, 2 tiles)
  view<float, 4> out;                          // (batch, heads, queries, dv)
  view<float, 3> log_sum_exp, sum_of_squares;  // null: not wanted
  attention_visibility visibility;
  std::int64_t keys;
  score_scale<float> scale;
  std::int64_t query_blocks;
  exp2_numbers<4> exp2 = exp2_for_bfloat16;
  word_numbers word = {};
  int one = 1;  // see multiply_by_keys_that_stay

  static std::int64_t padded_columns(std::int64_t dv) { return memory::padded_columns(dv); }
  static std::int64_t steps_of(std::int64_t k) { return memory::steps_of(k); }
  static std::int64_t local_bytes(std::int64_t dk, std::int64_t dv) { return memory::bytes(dk, dv); }

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    if constexpr (target_has_tiles<true>()) run(item, local);
  }

 private:
  void run(sycl::nd_item<1> item, std::byte* local) const {
    const sycl::sub_group group = item.get_sub_group();
    const std::int64_t lane = static_cast<std::int64_t>(item.get_local_id(0));
    const std::int64_t matrix = static_cast<std::int64_t>(item.get_group(0)) / query_blocks;
    const std::int64_t batch = matrix / out.extent[1];
    const std::int64_t row0 = static_cast<std::int64_t>(item.get_group(0)) % query_blocks * rows;
    memory m(local, out.extent[3]);
    take_queries(m, batch, matrix % out.extent[1], row0, lane);
    for (std::int64_t e = 0; e < M * N; e += SubGroup) (m.zeros + e)[lane] = 0;
    for (std::int64_t e = 0; e < rows * m.out_stride; e += SubGroup) (m.outs + e)[lane] = 0;
    for (int r = 0; r < rows; ++r) {
      m.sum_before(r)[lane] = m.squares_before(r)[lane] = 0;
      if (lane == 0) m.offset[r] = lowest;
    }
    sub_group_barrier(group);
    const std::int64_t last_row = std::min(row0 + rows, out.extent[2]) - 1;
    const std::int64_t visible = visibility.keys_of(batch, last_row, keys), steps = steps_of(visible);
    const std::int64_t seen_by_all = visibility.keys_of(batch, row0, keys);
    std::int64_t waiting = 0;  // the first step whose weights have not met the values
    if (steps > 0) {
      multiply_keys(group, m, matrix, 0, [](int) {});
      sub_group_barrier(group);
      raise_offsets(group, m, {batch, row0, 0, false}, lane);
    }
    for (std::int64_t step = 0; step < steps; ++step) {
      const query_block block{batch, row0, step, (step + 1) * K <= seen_by_all};
      float excess = -infinity;
      if (step + 1 < steps && block.is_seen_by_all) {
        multiply_keys(group, m, matrix, step + 1,
                      [&](int part) { excess = sycl::fmax(excess, exponentiate<false>(m, block, part, lane)); });
      } else {
        if (step + 1 < steps) multiply_keys(group, m, matrix, step + 1, [](int) {});
        excess = exponentiate(m, block, lane);
      }
      sub_group_barrier(group);
      if (sycl::reduce_over_group(group, excess, sycl::maximum<float>()) > most_excess) {
        multiply_values(group, m, matrix, waiting, step, visible, lane);
        waiting = step;
        raise_offsets(group, m, block, lane);
        exponentiate(m, block, lane);
        sub_group_barrier(group);
      }
      m.turn ^= 1;
      if ((step + 1) % block_steps == 0 || step + 1 == steps) {
        multiply_values(group, m, matrix, waiting, step + 1, visible, lane);
        waiting = step + 1;
      }
    }
    for (int r = 0; r < rows && row0 + r < out.extent[2]; ++r) finish(group, m, matrix, row0 + r, r, lane);
  }

  using products = attention_tile_products<M, N, K>;
  using element = typename products::element;
  static constexpr float infinity = std::numeric_limits<float>::infinity();
  static constexpr float lowest = std::numeric_limits<float>::lowest();  // smallest offset; -inf - lowest is -inf
  static constexpr float most_excess = 20;
  static constexpr int a_step = memory::a_step, b_step = memory::b_step, block_steps = memory::block_steps;
  static constexpr int record = memory::record;

  /// A step of keys, and the queries that meet it.
  struct query_block {
    std::int64_t batch, row0, step;
    bool is_seen_by_all;

    /// How many keys of the step row r sees.
    int seen(const attention_visibility& visibility, std::int64_t keys, int r) const {
      const std::int64_t count = visibility.keys_of(batch, row0 + r, keys) - step * K;
      return static_cast<int>(std::clamp<std::int64_t>(count, 0, K));
    }
  };

  void take_queries(const memory& m, std::int64_t batch, std::int64_t head, std::int64_t row0,
                    std::int64_t lane) const {
    const std::int64_t dk = q.extent[3];
    for (int r = 0; r < rows; ++r) {
      const bool is_inside = row0 + r < q.extent[2];
      const bfloat16* from = is_inside ? &q(batch, head, row0 + r, 0) : q.data;
      for (std::int64_t c = 0; c < steps_of(dk) * K; c += SubGroup) {
        bfloat16* to = m.queries + (r / (2 * M) * steps_of(dk) + c / K) * a_step + r % (2 * M) * K + c % K;
        const bool is_number = is_inside && c + lane < dk;
        // With stride 1, compilers load all lanes at once.
        const std::uint16_t bits = !is_number         ? std::uint16_t(0)
                                   : q.stride[3] == 1 ? (from + c)[lane].bits
                                                      : from[(c + lane) * q.stride[3]].bits;
        to[lane].bits = bits;
      }
    }
  }

  /// scores (rows, K keys of a step) = q k^T, without the scale, in parts of M queries. After each part is started,
  /// the lanes run meanwhile(part).
  template <class Meanwhile>
  [[gnu::always_inline]] void multiply_keys(sycl::sub_group group, const memory& m, std::int64_t matrix,
                                            std::int64_t step, Meanwhile meanwhile) const {
    const std::int64_t steps = steps_of(q.extent[3]);
    const auto* a = reinterpret_cast<const element*>(m.queries);
    const element* b = reinterpret_cast<const element*>(k) + (matrix * steps_of(keys) + step) * steps * b_step;
    const auto multiply_each = [&](auto multiply) {
#pragma nounroll  // `meanwhile` is long
      for (int part = 0; part < rows / M; ++part) {
        multiply(in_local(a + part / 2 * steps * a_step + part % 2 * M * K), in_local(m.scores_of(step, part * M)));
        meanwhile(part);
      }
    };
    if constexpr (KeysStay) {
      products::multiply_by_keys_that_stay(group, in_global(b), record, one, multiply_each);
    } else {
      multiply_each([&](auto from, auto to) {
        products::multiply_by_keys(group, from, in_global(b), steps, in_local(m.zeros), to, record);
      });
    }
  }

  /// The offset of each row becomes its largest score so far; sums and outs follow.
  [[gnu::always_inline]] void raise_offsets(sycl::sub_group group, const memory& m, const query_block& block,
                                            std::int64_t lane) const {
    for (int r = 0; r < rows; ++r) {
      const int seen = block.seen(visibility, keys, r);
      const float* scores = m.scores_of(block.step, r);
      const float even = 2 * lane < seen ? scale.sign * scores[lane] : -infinity;
      const float odd = 2 * lane + 1 < seen ? scale.sign * (scores + N)[lane] : -infinity;
      const float largest = sycl::reduce_over_group(group, sycl::fmax(even, odd), sycl::maximum<float>());
      const float before = m.offset[r], after = sycl::fmax(before, largest);
      if (!(after > before)) continue;
      const float correction = exp2_of_score(exp2, pack<float, 1>(scale.size * (before - after))).lanes;
      m.sum_before(r)[lane] *= correction;
      m.squares_before(r)[lane] *= correction * correction;
      for (std::int64_t c = 0; c < m.out_stride; c += SubGroup) (m.outs + r * m.out_stride + c)[lane] *= correction;
      sub_group_barrier(group);  // all lanes have read the offset
      if (lane == 0) m.offset[r] = after;
    }
    sub_group_barrier(group);
  }

  /// All parts, one after the other.
  [[gnu::always_inline]] float exponentiate(const memory& m, const query_block& block, std::int64_t lane) const {
    float excess = -infinity;
#pragma nounroll
    for (int part = 0; part < rows / M; ++part) {
      excess = sycl::fmax(excess, block.is_seen_by_all ? exponentiate<false>(m, block, part, lane)
                                                       : exponentiate<true>(m, block, part, lane));
    }
    return excess;
  }

  /// weights (M queries of a part, K keys of a step) = 2^(scaled scores - offset), 0 where not visible, and the sums
  /// with them. Returns the largest exponent of a lane.
  template <bool IsMasked>
  [[gnu::always_inline]] float exponentiate(const memory& m, const query_block& block, int part,
                                            std::int64_t lane) const {
    const exp2_numbers<4> numbers = exp2;
    const word_numbers numbers_of_word = word;
    float excess = -infinity;
    auto* words = reinterpret_cast<std::uint32_t*>(m.weights_of(block.step, part / 2)) + part % 2 * M * K / 2;
    for (int r = part * M; r < (part + 1) * M; ++r, words += K / 2) {
      // Pointers are uniform and `lane` is added last: so compilers see that lanes are neighbours.
      const float* scores = m.scores_of(block.step, r);
      const float offset = m.offset[r];
      float even = scale.size * sycl::fma(scale.sign, scores[lane], -offset);
      float odd = scale.size * sycl::fma(scale.sign, (scores + N)[lane], -offset);
      if constexpr (IsMasked) {
        const int seen = block.seen(visibility, keys, r);
        even = 2 * lane < seen ? even : -infinity;
        odd = 2 * lane + 1 < seen ? odd : -infinity;
      }
      excess = even > excess ? even : excess;
      excess = odd > excess ? odd : excess;
      const float e = exp2_of_score(numbers, pack<float, 1>(even)).lanes;
      const float f = exp2_of_score(numbers, pack<float, 1>(odd)).lanes;
      m.sum_after(r)[lane] = m.sum_before(r)[lane] + (e + f);
      if (sum_of_squares.data != nullptr) {
        m.squares_after(r)[lane] = sycl::fma(e, e, sycl::fma(f, f, m.squares_before(r)[lane]));
      }
      // Rounded half up: a NaN of the inputs, or of arithmetic, has nothing in the bits that are added to.
      words[lane] = (std::bit_cast<std::uint32_t>(e) + numbers_of_word.half) >> 16 |
                    ((std::bit_cast<std::uint32_t>(f) + numbers_of_word.half) & numbers_of_word.upper);
    }
    return excess;
  }

  /// outs (rows, dv) += weights (rows, keys of some steps) v (keys of some steps, dv)
  [[gnu::always_inline]] void multiply_values(sycl::sub_group group, const memory& m, std::int64_t matrix,
                                              std::int64_t first, std::int64_t end, std::int64_t visible,
                                              std::int64_t lane) const {
    // Values that no query may see can be anything: with the weight 0, NaN would still be NaN.
    const int masked = visible < keys && end * K > visible ? static_cast<int>(visible % K) : 0;
    const std::int64_t whole = end - first - (masked > 0 ? 1 : 0);
    for (std::int64_t column = 0; column < out.extent[3]; column += 2 * N) {
      const element* b =
          reinterpret_cast<const element*>(v) +
          ((matrix * padded_columns(out.extent[3]) + column) / (2 * N) * steps_of(keys) + first) * b_step;
      for (int panel = 0; panel < Panels; ++panel) {
        const auto* a = reinterpret_cast<const element*>(m.weights_of(first, panel));
        products::multiply_add(group, in_local(a), in_global(b), whole,
                               in_local(m.outs + panel * 2 * M * m.out_stride + column), m.out_stride);
      }
      if (masked == 0) continue;
      const auto* last = reinterpret_cast<const bfloat16*>(b + whole * b_step);
      for (int e = lane; e < b_step; e += SubGroup) {
        const int key = e % (K * N) / (2 * N) * 2 + e % 2;
        m.values[e].bits = key < masked ? last[e].bits : std::uint16_t(0);
      }
      sub_group_barrier(group);
      for (int panel = 0; panel < Panels; ++panel) {
        const auto* a = reinterpret_cast<const element*>(m.weights_of(end - 1, panel));
        products::multiply_add(group, in_local(a), in_local(reinterpret_cast<const element*>(m.values)), 1,
                               in_local(m.outs + panel * 2 * M * m.out_stride + column), m.out_stride);
      }
      sub_group_barrier(group);
    }
    sub_group_barrier(group);
  }

  /// Divides row r by the sum of its exponentials and writes it. A row that sees no key gives zeros.
  void finish(sycl::sub_group group, const memory& m, std::int64_t matrix, std::int64_t row, int r,
              std::int64_t lane) const {
    const std::int64_t batch = matrix / out.extent[1], head = matrix % out.extent[1];
    const float total = sycl::reduce_over_group(group, m.sum_before(r)[lane], sycl::plus<float>());
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
      // The logarithm is one of bits, and would take NaN and infinity for numbers.
      const float log2 = total < infinity ? log2_of_positive(total) : std::numeric_limits<float>::quiet_NaN();
      log_sum_exp(batch, head, row) = total == 0 ? -infinity : scale.size * ln2 * m.offset[r] + ln2 * log2;
    }
    if (sum_of_squares.data == nullptr) return;
    const float squares = sycl::reduce_over_group(group, m.squares_before(r)[lane], sycl::plus<float>());
    if (lane == 0) sum_of_squares(batch, head, row) = squares * factor * factor;
  }
};

}  // namespace nullscope::kernels

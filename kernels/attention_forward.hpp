/// Attention with an online softmax: the S x S matrix of weights is never stored.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <nullscope/view.hpp>
#include <sycl/sycl.hpp>

#include "attention_exp2.hpp"
#include "attention_shape.hpp"
#include "tile.hpp"

namespace nullscope::kernels {

/// For one batch entry and head:  scores = scale q k^T (queries, keys), weights = softmax of the visible scores of a
/// row, out = weights v (queries, dv), log_sum_exp (queries).
///
/// A work-group takes `panels` panels of Shape::rows queries, and walks along the keys in blocks. For each block and
/// panel: scores into local memory, exponentials in place, and out += exponentials v. The keys come as columns and the
/// values as they are, both in panels of Shape::columns (pack_panels).
///
/// The offset of a row is the maximum of its first block, and changes only if later scores exceed it by 2^20: a row's
/// exponentials then stay far from overflow, and there is nothing to correct in nearly all blocks.
///
/// Ladder on a CPU with AVX-512 (12 heads of 64, S = 1024, time relative to the first in the same run):
///   a new maximum and a correction in every block, exp by constants: 1; with sums kept in lanes: 1.0
///   scores of all panels of the group first, so that a panel of keys stays in cache: 1.05 (scores then do not)
///   blocks of 128, 256, 512 keys: 1.05, 1, 1.0
///   offsets that rarely change, powers of two whose numbers are arguments, as here: 0.92
template <class In, class T, class Shape>
struct attention_forward {
  static constexpr const char* source = "attention_forward.hpp";
  static constexpr int dimensions = 1;
  static constexpr bool one_work_item = Shape::work_items == 1;
  using lanes = pack<T, Shape::width>;
  using tile = lanes[Shape::rows][Shape::packs];
  static constexpr T infinity = std::numeric_limits<T>::infinity();
  static constexpr T lowest = T(-1e38);  // any score that is no -inf exceeds it; -inf less it is -inf still

  view<const In, 4> q;                     // (batch, heads, queries, dk)
  const T* key_panels;                     // (batch * heads, panels of keys, dk, columns)
  const T* value_panels;                   // (batch * heads, panels of dv, keys, columns)
  view<T, 4> out;                          // (batch, heads, queries, dv)
  view<T, 3> log_sum_exp, sum_of_squares;  // (batch, heads, queries); null: not asked for
  attention_visibility visibility;
  std::int64_t keys;
  T scale;  // in the units of the exponential
  std::int64_t panels, query_blocks;
  score_exponential<T> exponential = {};

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    const int id = static_cast<int>(item.get_local_id(0));
    const int lane = id % Shape::lanes, worker = id / Shape::lanes;
    const std::int64_t matrix = item.get_group(0) / query_blocks;
    const std::int64_t row0 = item.get_group(0) % query_blocks * panels * Shape::rows;
    const std::int64_t batch = matrix / q.extent[1], head = matrix % q.extent[1];
    const attention_local<T, Shape> memory(local, panels, q.extent[3], out.extent[3]);

    begin(memory, batch, head, row0, lane, worker);
    memory.forget(id);
    barrier<one_work_item>(item);
    const std::int64_t last_row = std::min(row0 + panels * Shape::rows, q.extent[2]) - 1;
    const std::int64_t visible = visibility.keys_of(batch, last_row, keys);
    for (std::int64_t key0 = 0; key0 < visible; key0 += Shape::key_block) {
      const key_range block{matrix, batch, row0, key0, std::min<std::int64_t>(Shape::key_block, visible - key0)};
      const int turn = static_cast<int>(key0 / Shape::key_block % 2);
      barrier<one_work_item>(item);
      for (std::int64_t panel = worker; panel < panels; panel += Shape::workers) {
        const std::int64_t first = panel * Shape::rows;
        const int count = seen_by(block, first + Shape::rows - 1);
        T* scores = memory.scores + worker * Shape::rows * Shape::score_stride;
        multiply_keys(memory.query_panel(panel), block, count, scores, lane);
        barrier<one_work_item>(item);
        bool is_calm = false;
        if (key0 > 0) {
          // All take the same way, as there are barriers on it.
          is_calm = memory.all_agree(item, exponentiate(memory, first, scores, block, turn, lane));
          if (!is_calm) {
            multiply_keys(memory.query_panel(panel), block, count, scores, lane);
            barrier<one_work_item>(item);
          }
        }
        if (!is_calm) {
          raise_offsets(item, memory, first, scores, block, turn, lane);
          exponentiate(memory, first, scores, block, turn, lane);
        }
        barrier<one_work_item>(item);
        memory.forget(id);
        multiply_values(memory, panel, block, count, scores, lane);
        barrier<one_work_item>(item);
      }
    }
    const int turn = static_cast<int>((visible + Shape::key_block - 1) / Shape::key_block % 2);
    for (std::int64_t panel = worker; panel < panels; panel += Shape::workers) {
      for (int i = 0; i < Shape::rows; ++i) finish(memory, panel * Shape::rows + i, turn, batch, head, row0, lane);
    }
  }

 private:
  /// A block of keys, and the queries that meet it.
  struct key_range {
    std::int64_t matrix, batch, row0, key0, count;
  };

  /// Keys of the block that row r of the group sees; not fewer than the row before it.
  int seen_by(const key_range& block, std::int64_t r) const {
    const std::int64_t seen = visibility.keys_of(block.batch, block.row0 + r, keys) - block.key0;
    return static_cast<int>(std::clamp<std::int64_t>(seen, 0, block.count));
  }

  /// Queries, transposed, into local memory; no offset and no sum yet.
  void begin(const attention_local<T, Shape>& memory, std::int64_t batch, std::int64_t head, std::int64_t row0,
             int lane, int worker) const {
    const std::int64_t dk = q.extent[3];
    for (std::int64_t panel = worker; panel < panels; panel += Shape::workers) {
      T* queries = memory.query_panel(panel);
      for (int i = 0; i < Shape::rows; ++i) {
        const std::int64_t r = panel * Shape::rows + i;
        const bool is_inside = row0 + r < q.extent[2];
        for (std::int64_t k = lane; k < dk; k += Shape::lanes) {
          queries[k * Shape::rows + i] = is_inside ? static_cast<T>(q(batch, head, row0 + r, k)) : T(0);
        }
        store(memory.sum + memory.place(0, r, lane), lanes(T(0)));
        store(memory.squares + memory.place(0, r, lane), lanes(T(0)));
        if (lane == 0) memory.offset[r] = lowest;
        T* out_row = memory.out_panel(panel) + i * memory.out_stride;
        for (std::int64_t c = lane; c < memory.out_stride; c += Shape::lanes) out_row[c] = T(0);
      }
    }
  }

  /// scores (rows, count) = queries (rows, dk) keys (dk, count)
  void multiply_keys(const T* queries, const key_range& block, int count, T* scores, int lane) const {
    const std::int64_t dk = q.extent[3];
    const std::int64_t panels_of_keys = (keys + Shape::columns - 1) / Shape::columns;
    const T* key_panel =
        key_panels + (block.matrix * panels_of_keys + block.key0 / Shape::columns) * dk * Shape::columns;
    for (int column = 0; column < count; column += Shape::columns, key_panel += dk * Shape::columns) {
      tile sum;
      clear_tile(sum);
      multiply_tile<1, Shape::rows, Shape::columns, Shape::pack_distance>(queries, key_panel + lane * Shape::width,
                                                                          static_cast<int>(dk), sum);
      store_tile<Shape::pack_distance>(scores + column + lane * Shape::width, Shape::score_stride, sum);
    }
  }

  /// Of the first `seen` scores of a row, with the scale, those of this lane.
  T largest_score(const T* row, int seen, int lane) const {
    lanes largest_so_far(-infinity);
    int c = lane * Shape::width;
    for (; c + Shape::width <= seen; c += Shape::pack_distance) {
      largest_so_far = max(lanes(scale) * load<Shape::width>(row + c), largest_so_far);
    }
    for (int l = 0; l < Shape::width && c + l < seen; ++l) {
      largest_so_far = max(lanes(scale * row[c + l]), largest_so_far);
    }
    return largest(largest_so_far);
  }

  /// The offset of each row of the panel becomes its largest score so far; sums and out follow.
  void raise_offsets(const sycl::nd_item<1>& item, const attention_local<T, Shape>& memory, std::int64_t first,
                     const T* scores, const key_range& block, int turn, int lane) const {
    for (int i = 0; i < Shape::rows; ++i) {
      memory.partial[(first + i) * Shape::lanes + lane] =
          largest_score(scores + i * Shape::score_stride, seen_by(block, first + i), lane);
    }
    barrier<one_work_item>(item);
    T after[Shape::rows];
    for (int i = 0; i < Shape::rows; ++i) {
      const std::int64_t r = first + i;
      const T before = memory.offset[r];
      after[i] = before;
      for (int l = 0; l < Shape::lanes; ++l) {
        after[i] = sycl::fmax(after[i], memory.partial[r * Shape::lanes + l]);
      }
      const T correction = after[i] == before ? T(1) : sycl::exp((before - after[i]) / T(score_exponential<T>::units));
      T *sum = memory.sum + memory.place(turn, r, lane), *squares = memory.squares + memory.place(turn, r, lane);
      store(sum, lanes(correction) * load<Shape::width>(sum));
      store(squares, lanes(correction * correction) * load<Shape::width>(squares));
      T* out_row = memory.out_panel(0) + r * memory.out_stride;
      for (std::int64_t c = lane * Shape::width; c < memory.out_stride; c += Shape::pack_distance) {
        store(out_row + c, lanes(correction) * load<Shape::width>(out_row + c));
      }
    }
    barrier<one_work_item>(item);  // no lane needs the old offsets any more
    for (int i = 0; i < Shape::rows; ++i) memory.offset[first + i] = after[i];
    barrier<one_work_item>(item);
  }

  /// scores -> exponentials of scale scores - offset, 0 where not visible; the sums with them go to the other turn.
  /// Returns false if a score was too large for the offset.
  bool exponentiate(const attention_local<T, Shape>& memory, std::int64_t first, T* scores, const key_range& block,
                    int turn, int lane) const {
    const int count = seen_by(block, first + Shape::rows - 1);
    const score_exponential<T> power = exponential;
    lanes excess(-infinity);
    for (int i = 0; i < Shape::rows; ++i) {
      const std::int64_t r = first + i;
      const int seen = seen_by(block, r);
      const lanes minus_offset(-memory.offset[r]);
      T* row = scores + i * Shape::score_stride;
      lanes total = load<Shape::width>(memory.sum + memory.place(turn, r, lane));
      lanes squares = load<Shape::width>(memory.squares + memory.place(turn, r, lane));
      int c = lane * Shape::width;
      for (; c + Shape::width <= seen; c += Shape::pack_distance) {
        const lanes x = fma(lanes(scale), load<Shape::width>(row + c), minus_offset);
        excess = max(x, excess);
        const lanes e = power(x);
        store(row + c, e);
        total += e;
        squares = fma(e, e, squares);
      }
      for (; c < count; c += Shape::pack_distance) {
        const lanes x = fma(lanes(scale), load<Shape::width>(row + c), minus_offset);
        const lanes e = first_lanes_of(power(x), seen - c);
        excess = max(first_lanes_of(x, seen - c), excess);
        store(row + c, e);
        total += e;
        squares = fma(e, e, squares);
      }
      store(memory.sum + memory.place(turn ^ 1, r, lane), total);
      store(memory.squares + memory.place(turn ^ 1, r, lane), squares);
    }
    return !(largest(excess) > score_exponential<T>::most);
  }

  /// out (rows, dv) += weights (rows, count) values (count, dv)
  void multiply_values(const attention_local<T, Shape>& memory, std::int64_t panel, const key_range& block, int count,
                       const T* weights, int lane) const {
    const std::int64_t stride = memory.out_stride;
    for (std::int64_t column = 0; column < stride; column += Shape::columns) {
      const T* value_panel = value_panels + (block.matrix * stride + column) * keys + block.key0 * Shape::columns;
      T* to = memory.out_panel(panel) + column + lane * Shape::width;
      tile sum;
      load_tile<Shape::pack_distance>(to, stride, sum);
      multiply_tile<Shape::score_stride, 1, Shape::columns, Shape::pack_distance>(
          weights, value_panel + lane * Shape::width, count, sum);
      store_tile<Shape::pack_distance>(to, stride, sum);
    }
  }

  /// Divides row r of the block by the sum of its exponentials and writes it. A row that sees no key gives zeros.
  void finish(const attention_local<T, Shape>& memory, std::int64_t r, int turn, std::int64_t batch, std::int64_t head,
              std::int64_t row0, int lane) const {
    const std::int64_t row = row0 + r;
    if (row >= q.extent[2]) return;
    T total = 0, squares = 0;
    for (int l = 0; l < Shape::lanes; ++l) {
      total += sum(load<Shape::width>(memory.sum + memory.place(turn, r, l)));
      squares += sum(load<Shape::width>(memory.squares + memory.place(turn, r, l)));
    }
    const T factor = total == T(0) ? T(0) : T(1) / total;
    const T* from = memory.out_panel(0) + r * memory.out_stride;
    for (std::int64_t c = lane; c < out.extent[3]; c += Shape::lanes) out(batch, head, row, c) = from[c] * factor;
    if (lane != 0) return;
    if (log_sum_exp.data != nullptr) {
      log_sum_exp(batch, head, row) =
          total == T(0) ? -infinity : memory.offset[r] / T(score_exponential<T>::units) + sycl::log(total);
    }
    if (sum_of_squares.data != nullptr) sum_of_squares(batch, head, row) = squares * factor * factor;
  }
};

}  // namespace nullscope::kernels

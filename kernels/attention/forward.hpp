/// Attention with an online softmax, for GPUs: the matrix of weights is never stored.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <nullscope/core/view.hpp>
#include <sycl/sycl.hpp>

#include "kernels/attention/bias.hpp"
#include "kernels/attention/exp2.hpp"
#include "kernels/attention/local.hpp"
#include "kernels/attention/shape.hpp"
#include "kernels/group/sub_group_size.hpp"
#include "kernels/linalg/tile.hpp"

namespace nullscope::kernels {

/// For one batch entry and head:  scores = scale q k^T + bias (queries, keys), weights = softmax of the visible scores
/// of a row, out = weights v (queries, dv), log_sum_exp (queries).
///
/// A work-group takes `panels` panels of Shape::rows queries, and walks along the keys in blocks. For each block and
/// panel: scores into local memory, exponentials in place, and out += exponentials v. The keys come as columns and the
/// values as they are, both in panels of Shape::columns (to_panels).
///
/// The offset of a row is the maximum of its first block, and changes only if later scores exceed it by 2^20: a row's
/// exponentials then stay far from overflow, and there is nothing to correct in nearly all blocks.
template <class In, class T, class Shape>
struct attention_forward {
  static constexpr const char* source = __FILE__;
  static constexpr int sub_group_size = narrow_sub_group;
  static_assert(Shape::width == 1);
  using tile = pack<T, 1>[Shape::rows][Shape::packs];
  static constexpr T infinity = std::numeric_limits<T>::infinity();
  static constexpr T lowest = std::numeric_limits<T>::lowest();  // smallest offset; -inf - lowest is -inf, not NaN

  view<const In, 4> q;                     // (batch, heads, queries, dk)
  const T* key_panels;                     // (batch * heads, panels of keys, dk, columns)
  const T* value_panels;                   // (batch * heads, panels of dv, keys, columns)
  view<T, 4> out;                          // (batch, heads, queries, dv)
  view<T, 3> log_sum_exp, sum_of_squares;  // (batch, heads, queries); null: not wanted
  score_bias<T> bias;
  attention_visibility visibility;
  std::int64_t keys;
  score_scale<T> scale;
  std::int64_t panels, query_blocks;
  score_exponential<T> exponential = {};

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    const group<Shape::work_items> members(item);
    const int id = members.rank();
    const int lane = id % Shape::lanes, worker = id / Shape::lanes;
    const std::int64_t matrix = members.number() / query_blocks;
    const std::int64_t row0 = members.number() % query_blocks * panels * Shape::rows;
    const std::int64_t batch = matrix / q.extent[1], head = matrix % q.extent[1];
    const attention_local<T, Shape> memory(local, panels, q.extent[3], out.extent[3]);

    const std::int64_t last_row = std::min(row0 + panels * Shape::rows, q.extent[2]) - 1;
    // Panels with queries. Every worker takes the same number, since it meets barriers on its way.
    constexpr std::int64_t rows_of_workers = Shape::workers * Shape::rows;
    const std::int64_t used = ((last_row - row0) / rows_of_workers + 1) * Shape::workers;

    for (std::int64_t panel = worker; panel < used; panel += Shape::workers) {
      begin(memory, panel, batch, head, row0, lane);
    }
    memory.forget(id);
    members.barrier();
    const std::int64_t visible = visibility.keys_of(batch, last_row, keys);
    for (std::int64_t key0 = 0; key0 < visible; key0 += Shape::key_block) {
      const key_range block{matrix, batch, row0, key0, std::min<std::int64_t>(Shape::key_block, visible - key0)};
      const int turn = static_cast<int>(key0 / Shape::key_block % 2);
      members.barrier();
      for (std::int64_t panel = worker; panel < used; panel += Shape::workers) {
        const std::int64_t first = panel * Shape::rows;
        const int count = seen_by(block, first + Shape::rows - 1);
        T* scores = memory.scores + worker * Shape::rows * Shape::score_stride;
        multiply_keys(memory, panel, block, count, scores, lane);
        members.barrier();
        bool is_calm = false;
        if (key0 > 0) {
          // All work-items take the same branch: there are barriers in it.
          is_calm = memory.all_agree(members, exponentiate(memory, first, scores, block, turn, lane));
          if (!is_calm) {
            multiply_keys(memory, panel, block, count, scores, lane);
            members.barrier();
          }
        }
        if (!is_calm) {
          raise_offsets(members, memory, first, scores, block, turn, lane);
          exponentiate(memory, first, scores, block, turn, lane);
        }
        members.barrier();
        memory.forget(id);
        multiply_values(memory, panel, block, count, scores, lane);
        members.barrier();
      }
    }
    const int turn = static_cast<int>((visible + Shape::key_block - 1) / Shape::key_block % 2);
    for (std::int64_t panel = worker; panel < used; panel += Shape::workers) {
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

  /// Queries, transposed, with the sign of the scale, into local memory; no offset and no sum yet.
  void begin(const attention_local<T, Shape>& memory, std::int64_t panel, std::int64_t batch, std::int64_t head,
             std::int64_t row0, int lane) const {
    T* queries = memory.query_panel(panel);
    for (int i = 0; i < Shape::rows; ++i) {
      const std::int64_t r = panel * Shape::rows + i;
      const bool is_inside = row0 + r < q.extent[2];
      for (std::int64_t k = lane; k < q.extent[3]; k += Shape::lanes) {
        queries[k * Shape::rows + i] = is_inside ? scale.sign * static_cast<T>(q(batch, head, row0 + r, k)) : T(0);
      }
      memory.sum[memory.place(0, r, lane)] = memory.squares[memory.place(0, r, lane)] = T(0);
      if (lane == 0) memory.offset[r] = lowest;
      T* out_row = memory.out_panel(panel) + i * memory.out_stride;
      for (std::int64_t c = lane; c < memory.out_columns; c += Shape::lanes) out_row[c] = T(0);
    }
  }

  /// scores (rows, count) = bias / scale + queries (rows, dk) keys (dk, count)
  void multiply_keys(const attention_local<T, Shape>& memory, std::int64_t panel, const key_range& block, int count,
                     T* scores, int lane) const {
    const std::int64_t dk = q.extent[3];
    const std::int64_t panels_of_keys = (keys + Shape::columns - 1) / Shape::columns;
    const T* key_panel =
        key_panels + (block.matrix * panels_of_keys + block.key0 / Shape::columns) * dk * Shape::columns;
    for (int column = 0; column < count; column += Shape::columns, key_panel += dk * Shape::columns) {
      tile sum;
      clear_tile(sum);
      if (bias.is_present()) start_from_bias(block, panel * Shape::rows, column + lane, sum);
      multiply_tile<1, Shape::rows, Shape::columns, Shape::pack_distance>(memory.query_panel(panel), key_panel + lane,
                                                                          static_cast<int>(dk), sum);
      store_tile<Shape::pack_distance>(scores + column + lane, Shape::score_stride, sum);
    }
  }

  void start_from_bias(const key_range& block, std::int64_t first, int column, tile& scores) const {
    const std::int64_t head = block.matrix % q.extent[1];
    for (int i = 0; i < Shape::rows; ++i) {
      for (int p = 0; p < Shape::packs; ++p) {
        const std::int64_t key = block.key0 + column + p * Shape::pack_distance;
        scores[i][p] = pack<T, 1>(bias.at(block.batch, head, block.row0 + first + i, key));
      }
    }
  }

  /// The largest of the first `seen` scores of a row, among those of this lane.
  T largest_score(const T* row, int seen, int lane) const {
    T largest_so_far = -infinity;
    for (int c = lane; c < seen; c += Shape::lanes) largest_so_far = sycl::fmax(row[c], largest_so_far);
    return largest_so_far;
  }

  /// The offset of each row of the panel becomes its largest score so far; sums and out follow.
  void raise_offsets(const group<Shape::work_items>& members, const attention_local<T, Shape>& memory,
                     std::int64_t first, const T* scores, const key_range& block, int turn, int lane) const {
    for (int i = 0; i < Shape::rows; ++i) {
      memory.partial[(first + i) * Shape::lanes + lane] =
          largest_score(scores + i * Shape::score_stride, seen_by(block, first + i), lane);
    }
    members.barrier();
    T after[Shape::rows];
    for (int i = 0; i < Shape::rows; ++i) {
      const std::int64_t r = first + i;
      const T before = memory.offset[r];
      after[i] = before;
      for (int l = 0; l < Shape::lanes; ++l) {
        after[i] = sycl::fmax(after[i], memory.partial[r * Shape::lanes + l]);
      }
      const T natural = scale.size / T(score_exponential<T>::units);
      const T correction = after[i] == before ? T(1) : sycl::exp(natural * (before - after[i]));
      memory.sum[memory.place(turn, r, lane)] *= correction;
      memory.squares[memory.place(turn, r, lane)] *= correction * correction;
      T* out_row = memory.out_panel(0) + r * memory.out_stride;
      for (std::int64_t c = lane; c < memory.out_columns; c += Shape::lanes) out_row[c] *= correction;
    }
    members.barrier();  // all lanes have read the old offsets
    if (lane == 0) {
      for (int i = 0; i < Shape::rows; ++i) memory.offset[first + i] = after[i];
    }
    members.barrier();
  }

  /// scores -> exponentials of scaled scores - offset, 0 where not visible; the new sums go to the other turn.
  /// Returns false if a score was too large for the offset.
  bool exponentiate(const attention_local<T, Shape>& memory, std::int64_t first, T* scores, const key_range& block,
                    int turn, int lane) const {
    const int count = seen_by(block, first + Shape::rows - 1);
    const score_exponential<T> power = exponential;
    T excess = -infinity;
    for (int i = 0; i < Shape::rows; ++i) {
      const std::int64_t r = first + i;
      const int seen = seen_by(block, r);
      T* row = scores + i * Shape::score_stride;
      T total = 0, squares = 0;
      for (int c = lane; c < count; c += Shape::lanes) {
        const T x = scale.size * (row[c] - memory.offset[r]);
        const T e = c < seen ? power(pack<T, 1>(x))[0] : T(0);
        if (c < seen) excess = sycl::fmax(x, excess);
        row[c] = e;
        total += e;
        squares = sycl::fma(e, e, squares);
      }
      memory.sum[memory.place(turn ^ 1, r, lane)] = memory.sum[memory.place(turn, r, lane)] + total;
      memory.squares[memory.place(turn ^ 1, r, lane)] = memory.squares[memory.place(turn, r, lane)] + squares;
    }
    return !(excess > score_exponential<T>::most);
  }

  /// out (rows, dv) += weights (rows, count) values (count, dv)
  void multiply_values(const attention_local<T, Shape>& memory, std::int64_t panel, const key_range& block, int count,
                       const T* weights, int lane) const {
    const std::int64_t columns = memory.out_columns;
    for (std::int64_t column = 0; column < columns; column += Shape::columns) {
      const T* value_panel = value_panels + (block.matrix * columns + column) * keys + block.key0 * Shape::columns;
      tile sum;
      clear_tile(sum);
      multiply_tile<Shape::score_stride, 1, Shape::columns, Shape::pack_distance>(weights, value_panel + lane, count,
                                                                                  sum);
      add_tile<Shape::pack_distance>(memory.out_panel(panel) + column + lane, memory.out_stride, sum);
    }
  }

  /// Divides row r of the block by the sum of its exponentials and writes it. A row that sees no key gives zeros.
  void finish(const attention_local<T, Shape>& memory, std::int64_t r, int turn, std::int64_t batch, std::int64_t head,
              std::int64_t row0, int lane) const {
    const std::int64_t row = row0 + r;
    if (row >= q.extent[2]) return;
    T total = 0, squares = 0;
    for (int l = 0; l < Shape::lanes; ++l) {
      total += memory.sum[memory.place(turn, r, l)];
      squares += memory.squares[memory.place(turn, r, l)];
    }
    const T factor = total == T(0) ? T(0) : T(1) / total;
    const T* from = memory.out_panel(0) + r * memory.out_stride;
    for (std::int64_t c = lane; c < out.extent[3]; c += Shape::lanes) out(batch, head, row, c) = from[c] * factor;
    if (lane != 0) return;
    if (log_sum_exp.data != nullptr) {
      log_sum_exp(batch, head, row) =
          total == T(0) ? -infinity : scale.size / T(score_exponential<T>::units) * memory.offset[r] + sycl::log(total);
    }
    if (sum_of_squares.data != nullptr) sum_of_squares(batch, head, row) = squares * factor * factor;
  }
};

}  // namespace nullscope::kernels

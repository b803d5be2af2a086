/// Attention with an online softmax: the S x S matrix of weights is never stored.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <nullscope/view.hpp>
#include <sycl/sycl.hpp>

#include "attention_shape.hpp"
#include "pack_math.hpp"
#include "tile.hpp"

namespace nullscope::kernels {

/// For one batch entry and head:  scores = scale q k^T (queries, keys), weights = softmax of the visible scores of a
/// row, out = weights v (queries, dv), log_sum_exp (queries).
///
/// A work-group takes `panels` panels of Shape::rows queries, and walks along the keys in blocks. For each block and
/// panel: scores into local memory, new row maxima, exponentials in place, and out = out * correction + exponentials v.
/// The keys come as columns and the values as they are, both in panels of Shape::columns (pack_panels).
template <class In, class T, class Shape>
struct attention_forward {
  static constexpr const char* source = "attention_forward.hpp";
  static constexpr int dimensions = 1;
  static constexpr bool one_work_item = Shape::work_items == 1;
  using lanes = pack<T, Shape::width>;
  using tile = lanes[Shape::rows][Shape::packs];
  static constexpr T infinity = std::numeric_limits<T>::infinity();

  view<const In, 4> q;                     // (batch, heads, queries, dk)
  const T* key_panels;                     // (batch * heads, panels of keys, dk, columns)
  const T* value_panels;                   // (batch * heads, panels of dv, keys, columns)
  view<T, 4> out;                          // (batch, heads, queries, dv)
  view<T, 3> log_sum_exp, sum_of_squares;  // (batch, heads, queries); null: not asked for
  attention_visibility visibility;
  std::int64_t keys;
  T scale;
  std::int64_t panels, query_blocks;

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    const int id = static_cast<int>(item.get_local_id(0));
    const int lane = id % Shape::lanes, worker = id / Shape::lanes;
    const std::int64_t matrix = item.get_group(0) / query_blocks;
    const std::int64_t row0 = item.get_group(0) % query_blocks * panels * Shape::rows;
    const std::int64_t batch = matrix / q.extent[1], head = matrix % q.extent[1];
    const attention_local<T, Shape> memory(local, panels, q.extent[3], out.extent[3]);

    begin(memory, batch, head, row0, lane, worker);
    sycl::group_barrier(item.get_group());
    const std::int64_t last_row = std::min(row0 + panels * Shape::rows, q.extent[2]) - 1;
    const std::int64_t visible = visibility.keys_of(batch, last_row, keys);
    for (std::int64_t key0 = 0; key0 < visible; key0 += Shape::key_block) {
      const key_range block{matrix, batch, row0, key0, std::min<std::int64_t>(Shape::key_block, visible - key0)};
      for (std::int64_t panel = worker; panel < panels; panel += Shape::workers) {
        const std::int64_t first = panel * Shape::rows;
        const int count = seen_by(block, first + Shape::rows - 1);
        T* scores = memory.scores + worker * Shape::rows * Shape::score_stride;
        multiply_keys(memory.query_panel(panel), block, count, scores, lane);
        sycl::group_barrier(item.get_group());
        if constexpr (Shape::lanes > 1) {
          for (int i = 0; i < Shape::rows; ++i) {
            memory.partial[(first + i) * Shape::lanes + lane] =
                largest_score(scores + i * Shape::score_stride, seen_by(block, first + i), lane);
          }
          sycl::group_barrier(item.get_group());
        }
        for (int i = 0; i < Shape::rows; ++i) {
          exponentiate(memory, first + i, scores + i * Shape::score_stride, seen_by(block, first + i), count, lane);
        }
        sycl::group_barrier(item.get_group());
        multiply_values(memory, panel, block, count, scores, lane);
        sycl::group_barrier(item.get_group());
      }
    }
    for (std::int64_t panel = worker; panel < panels; panel += Shape::workers) {
      for (int i = 0; i < Shape::rows; ++i) finish(memory, panel * Shape::rows + i, batch, head, row0, lane);
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

  /// Queries, scaled and transposed, into local memory; no maximum and no sum yet.
  void begin(const attention_local<T, Shape>& memory, std::int64_t batch, std::int64_t head, std::int64_t row0,
             int lane, int worker) const {
    const std::int64_t dk = q.extent[3];
    for (std::int64_t panel = worker; panel < panels; panel += Shape::workers) {
      T* queries = memory.query_panel(panel);
      for (int i = 0; i < Shape::rows; ++i) {
        const std::int64_t r = panel * Shape::rows + i;
        const bool is_inside = row0 + r < q.extent[2];
        for (std::int64_t k = lane; k < dk; k += Shape::lanes) {
          queries[k * Shape::rows + i] = is_inside ? scale * static_cast<T>(q(batch, head, row0 + r, k)) : T(0);
        }
        store(memory.sum + r * Shape::pack_distance + lane * Shape::width, lanes(T(0)));
        store(memory.squares + r * Shape::pack_distance + lane * Shape::width, lanes(T(0)));
        if (lane == 0) memory.maximum[r] = -infinity;
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

  /// Of the first `seen` scores of a row, those of this lane.
  static T largest_score(const T* row, int seen, int lane) {
    lanes largest_so_far(-infinity);
    int c = lane * Shape::width;
    for (; c + Shape::width <= seen; c += Shape::pack_distance) {
      largest_so_far = max(load<Shape::width>(row + c), largest_so_far);
    }
    if (c < seen) largest_so_far = max(load_tail<Shape::width>(row + c, seen - c, -infinity), largest_so_far);
    return largest(largest_so_far);
  }

  /// The maximum of row r with this block's scores.
  static T new_maximum(const attention_local<T, Shape>& memory, std::int64_t r) {
    T maximum = memory.maximum[r];
    for (int l = 0; l < Shape::lanes; ++l) maximum = sycl::fmax(maximum, memory.partial[r * Shape::lanes + l]);
    return maximum;
  }

  /// scores -> exp(scores - maximum), 0 from `seen` to `count`; sums corrected for the new maximum and continued.
  void exponentiate(const attention_local<T, Shape>& memory, std::int64_t r, T* row, int seen, int count,
                    int lane) const {
    const T before = memory.maximum[r];
    T maximum;
    if constexpr (Shape::lanes == 1) {
      maximum = memory.maximum[r] = sycl::fmax(before, largest_score(row, seen, lane));
    } else {
      maximum = new_maximum(memory, r);  // becomes memory.maximum once no lane needs the old one
    }
    const T offset = maximum == -infinity ? T(0) : maximum;  // -inf - -inf would be NaN
    const T correction = before == maximum ? T(1) : sycl::exp(before - offset);
    if (lane == 0) memory.correction[r] = correction;
    T* sums = memory.sum + r * Shape::pack_distance + lane * Shape::width;
    T* squares = memory.squares + r * Shape::pack_distance + lane * Shape::width;
    lanes total = lanes(correction) * load<Shape::width>(sums);
    lanes total_squares = lanes(correction * correction) * load<Shape::width>(squares);
    for (int c = lane * Shape::width; c < count; c += Shape::pack_distance) {
      lanes e = exp_of_nonpositive(load<Shape::width>(row + c) - lanes(offset));
      if (c + Shape::width > seen) e = first_lanes_of(e, seen - c);
      store(row + c, e);
      total += e;
      total_squares = fma(e, e, total_squares);
    }
    store(sums, total);
    store(squares, total_squares);
  }

  /// out (rows, dv) = out * correction + weights (rows, count) values (count, dv)
  void multiply_values(const attention_local<T, Shape>& memory, std::int64_t panel, const key_range& block, int count,
                       const T* weights, int lane) const {
    const std::int64_t stride = memory.out_stride, first = panel * Shape::rows;
    for (std::int64_t column = 0; column < stride; column += Shape::columns) {
      const T* value_panel = value_panels + (block.matrix * stride + column) * keys + block.key0 * Shape::columns;
      T* to = memory.out_panel(panel) + column + lane * Shape::width;
      tile sum;
      load_tile<Shape::pack_distance>(to, stride, sum);
#pragma unroll
      for (int i = 0; i < Shape::rows; ++i) {
        const lanes correction(memory.correction[first + i]);
#pragma unroll
        for (int p = 0; p < Shape::packs; ++p) sum[i][p] *= correction;
      }
      multiply_tile<Shape::score_stride, 1, Shape::columns, Shape::pack_distance>(
          weights, value_panel + lane * Shape::width, count, sum);
      store_tile<Shape::pack_distance>(to, stride, sum);
    }
    if (Shape::lanes > 1 && lane == 0) {
      for (int i = 0; i < Shape::rows; ++i) memory.maximum[first + i] = new_maximum(memory, first + i);
    }
  }

  /// Divides row r of the block by the sum of its exponentials and writes it. A row that sees no key gives zeros.
  void finish(const attention_local<T, Shape>& memory, std::int64_t r, std::int64_t batch, std::int64_t head,
              std::int64_t row0, int lane) const {
    const std::int64_t row = row0 + r;
    if (row >= q.extent[2]) return;
    T total = 0, squares = 0;
    for (int l = 0; l < Shape::lanes; ++l) {
      const std::int64_t at = r * Shape::pack_distance + l * Shape::width;
      total += sum(load<Shape::width>(memory.sum + at));
      squares += sum(load<Shape::width>(memory.squares + at));
    }
    const T factor = total == T(0) ? T(0) : T(1) / total;
    const T* from = memory.out_panel(0) + r * memory.out_stride;
    for (std::int64_t c = lane; c < out.extent[3]; c += Shape::lanes) out(batch, head, row, c) = from[c] * factor;
    if (lane != 0) return;
    if (log_sum_exp.data != nullptr) {
      log_sum_exp(batch, head, row) = total == T(0) ? -infinity : memory.maximum[r] + sycl::log(total);
    }
    if (sum_of_squares.data != nullptr) sum_of_squares(batch, head, row) = squares * factor * factor;
  }
};

}  // namespace nullscope::kernels

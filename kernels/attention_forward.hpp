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
      const int count = static_cast<int>(std::min<std::int64_t>(Shape::key_block, visible - key0));
      for (std::int64_t panel = worker; panel < panels; panel += Shape::workers) {
        T* scores = memory.scores + worker * Shape::rows * Shape::score_stride;
        multiply_keys(memory.query_panel(panel), matrix, key0, count, scores, lane);
        sycl::group_barrier(item.get_group());
        int seen[Shape::rows];
        for (int i = 0; i < Shape::rows; ++i) {
          const std::int64_t limit = visibility.keys_of(batch, row0 + panel * Shape::rows + i, keys) - key0;
          seen[i] = static_cast<int>(std::clamp<std::int64_t>(limit, 0, count));
        }
        find_maxima(scores, seen, memory.partial + worker * Shape::rows * Shape::lanes, lane);
        sycl::group_barrier(item.get_group());
        T correction[Shape::rows], maximum[Shape::rows];
        exponentiate(memory, panel, worker, scores, seen, count, lane, correction, maximum);
        sycl::group_barrier(item.get_group());
        if (lane == 0) {
          for (int i = 0; i < Shape::rows; ++i) memory.maximum[panel * Shape::rows + i] = maximum[i];
        }
        multiply_values(memory.out_panel(panel), scores, matrix, key0, count, correction, lane);
        sycl::group_barrier(item.get_group());
      }
    }
    for (std::int64_t panel = worker; panel < panels; panel += Shape::workers) {
      for (int i = 0; i < Shape::rows; ++i) finish(memory, panel * Shape::rows + i, batch, head, row0, lane);
    }
  }

 private:
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
        memory.sum[r * Shape::lanes + lane] = memory.squares[r * Shape::lanes + lane] = T(0);
        if (lane == 0) memory.maximum[r] = -infinity;
        T* out_row = memory.out_panel(panel) + i * memory.out_stride;
        for (std::int64_t c = lane; c < memory.out_stride; c += Shape::lanes) out_row[c] = T(0);
      }
    }
  }

  /// scores (rows, count) = queries (rows, dk) keys (dk, count)
  void multiply_keys(const T* queries, std::int64_t matrix, std::int64_t key0, int count, T* scores, int lane) const {
    const std::int64_t dk = q.extent[3];
    const std::int64_t panels_of_keys = (keys + Shape::columns - 1) / Shape::columns;
    const T* key_panel = key_panels + (matrix * panels_of_keys + key0 / Shape::columns) * dk * Shape::columns;
    for (int column = 0; column < count; column += Shape::columns, key_panel += dk * Shape::columns) {
      tile sum;
#pragma unroll
      for (int i = 0; i < Shape::rows; ++i) {
#pragma unroll
        for (int p = 0; p < Shape::packs; ++p) sum[i][p] = lanes(T(0));
      }
      multiply_tile<1, Shape::rows, Shape::columns, Shape::pack_distance>(queries, key_panel + lane * Shape::width,
                                                                          static_cast<int>(dk), sum);
#pragma unroll
      for (int i = 0; i < Shape::rows; ++i) {
#pragma unroll
        for (int p = 0; p < Shape::packs; ++p) {
          store(scores + i * Shape::score_stride + column + p * Shape::pack_distance + lane * Shape::width, sum[i][p]);
        }
      }
    }
  }

  /// partial (rows, lanes): the largest visible score that this lane sees.
  static void find_maxima(const T* scores, const int (&seen)[Shape::rows], T* partial, int lane) {
    for (int i = 0; i < Shape::rows; ++i) {
      const T* row = scores + i * Shape::score_stride;
      lanes largest_score(-infinity);
      int c = lane * Shape::width;
      for (; c + Shape::width <= seen[i]; c += Shape::pack_distance) {
        largest_score = max(load<Shape::width>(row + c), largest_score);
      }
      if (c < seen[i]) largest_score = max(load_tail<Shape::width>(row + c, seen[i] - c, -infinity), largest_score);
      partial[i * Shape::lanes + lane] = largest(largest_score);
    }
  }

  /// scores -> exp(scores - maximum), 0 where not visible; sums corrected for the new maximum and continued.
  void exponentiate(const attention_local<T, Shape>& memory, std::int64_t panel, int worker, T* scores,
                    const int (&seen)[Shape::rows], int count, int lane, T (&correction)[Shape::rows],
                    T (&maximum)[Shape::rows]) const {
    const T* partial = memory.partial + worker * Shape::rows * Shape::lanes;
    for (int i = 0; i < Shape::rows; ++i) {
      const std::int64_t r = panel * Shape::rows + i;
      const T before = memory.maximum[r];
      maximum[i] = before;
      for (int l = 0; l < Shape::lanes; ++l) maximum[i] = sycl::fmax(maximum[i], partial[i * Shape::lanes + l]);
      const T offset = maximum[i] == -infinity ? T(0) : maximum[i];  // -inf - -inf would be NaN
      correction[i] = sycl::exp(before - offset);
      T* row = scores + i * Shape::score_stride;
      lanes total(T(0)), squares(T(0));
      for (int c = lane * Shape::width; c < count; c += Shape::pack_distance) {
        lanes e = exp_of_nonpositive(load<Shape::width>(row + c) - lanes(offset));
        if (c + Shape::width > seen[i]) {
          store(row + c, e);
          e = load_tail<Shape::width>(row + c, seen[i] - c, T(0));
        }
        store(row + c, e);
        total += e;
        squares = fma(e, e, squares);
      }
      T& sum_so_far = memory.sum[r * Shape::lanes + lane];
      T& squares_so_far = memory.squares[r * Shape::lanes + lane];
      sum_so_far = sum_so_far * correction[i] + sum(total);
      squares_so_far = squares_so_far * correction[i] * correction[i] + sum(squares);
    }
  }

  /// out (rows, dv) = out * correction + weights (rows, count) values (count, dv)
  void multiply_values(T* out_rows, const T* weights, std::int64_t matrix, std::int64_t key0, int count,
                       const T (&correction)[Shape::rows], int lane) const {
    const std::int64_t stride = attention_local<T, Shape>::padded_columns(out.extent[3]);
    for (std::int64_t column = 0; column < stride; column += Shape::columns) {
      const T* value_panel =
          value_panels + ((matrix * stride / Shape::columns + column / Shape::columns) * keys + key0) * Shape::columns;
      T* to = out_rows + column + lane * Shape::width;
      tile sum;
#pragma unroll
      for (int i = 0; i < Shape::rows; ++i) {
#pragma unroll
        for (int p = 0; p < Shape::packs; ++p) {
          sum[i][p] = lanes(correction[i]) * load<Shape::width>(to + i * stride + p * Shape::pack_distance);
        }
      }
      multiply_tile<Shape::score_stride, 1, Shape::columns, Shape::pack_distance>(
          weights, value_panel + lane * Shape::width, count, sum);
#pragma unroll
      for (int i = 0; i < Shape::rows; ++i) {
#pragma unroll
        for (int p = 0; p < Shape::packs; ++p) store(to + i * stride + p * Shape::pack_distance, sum[i][p]);
      }
    }
  }

  /// Divides row r of the block by the sum of its exponentials and writes it. A row that sees no key gives zeros.
  void finish(const attention_local<T, Shape>& memory, std::int64_t r, std::int64_t batch, std::int64_t head,
              std::int64_t row0, int lane) const {
    const std::int64_t row = row0 + r;
    if (row >= q.extent[2]) return;
    T total = 0, squares = 0;
    for (int l = 0; l < Shape::lanes; ++l) {
      total += memory.sum[r * Shape::lanes + l];
      squares += memory.squares[r * Shape::lanes + l];
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

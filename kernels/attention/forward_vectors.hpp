/// Attention with an online softmax, for CPUs: the lanes of a vector are queries.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <nullscope/core/view.hpp>
#include <sycl/sycl.hpp>

#include "kernels/attention/bias.hpp"
#include "kernels/attention/exp2.hpp"
#include "kernels/attention/panel.hpp"
#include "kernels/attention/shape.hpp"
#include "kernels/linalg/stage.hpp"
#include "kernels/linalg/tile.hpp"
#include "kernels/linalg/transpose_block.hpp"

namespace nullscope::kernels {

/// For one batch entry and head:  scores = scale q k^T + bias (queries, keys), weights = softmax of the visible scores
/// of a row, out = weights v (queries, dv), log_sum_exp (queries).
///
/// A work-group is one work-item. It takes `panels` panels of `width` queries, which it transposes, and walks along the
/// keys in blocks. For each block and panel: scores^T = k q^T in tiles, whose exponentials go to local memory, and
/// out^T += v^T exponentials^T. Both products read k and v element by element, as they are in memory, and everything
/// that belongs to a query stays in its lane.
///
/// The offset of a query is the maximum of its first scores, and changes only if later ones exceed it by 2^20: the
/// exponentials then stay far from overflow, and there is nothing to correct in nearly all blocks.
///
/// HasBias is a parameter because a bias that is merely asked for keeps the tiles of scores out of the registers.
template <class In, class T, class Shape, bool HasBias>
struct attention_forward_vectors {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = true;
  static constexpr int W = Shape::width, packs = Shape::packs, rows = Shape::rows, width = Shape::queries;
  using lanes = pack<T, W>;
  using panel = attention_panel<T, W, width>;
  template <int Packs>
  using tile = lanes[rows][Packs];
  static constexpr T infinity = std::numeric_limits<T>::infinity();
  static constexpr T lowest = std::numeric_limits<T>::lowest();  // smallest offset; -inf - lowest is -inf, not NaN

  view<const In, 4> q;                     // (batch, heads, queries, dk)
  view<const T, 4> k, v;                   // (batch, heads, keys, dk), (batch, heads, keys, dv); last stride 1
  view<T, 4> out;                          // (batch, heads, queries, dv)
  view<T, 3> log_sum_exp, sum_of_squares;  // (batch, heads, queries); null: not wanted
  score_bias<T> bias;                      // if HasBias
  attention_visibility visibility;
  score_scale<T> scale;
  std::int64_t panels, query_blocks;
  score_exponential<T> exponential = {};

  static std::int64_t local_bytes(std::int64_t panels, std::int64_t dk, std::int64_t dv) {
    return static_cast<std::int64_t>(sizeof(T)) * (Shape::key_block + panels * panel::rows(dk, dv)) * width;
  }

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    const std::int64_t matrix = item.get_group(0) / query_blocks;
    const std::int64_t batch = matrix / q.extent[1], head = matrix % q.extent[1];
    const std::int64_t row0 = item.get_group(0) % query_blocks * panels * width;
    const std::int64_t row_end = std::min(row0 + panels * width, q.extent[2]);
    const auto for_each_panel = [&](auto work) {
      T* memory = reinterpret_cast<T*>(local);
      for (std::int64_t row = row0; row < row_end; row += width) {
        const std::int64_t place = Shape::key_block + (row - row0) / width * panel::rows(q.extent[3], v.extent[3]);
        work(panel(memory, memory + place * width, q.extent[3], v.extent[3], batch, head, row));
      }
    };
    for_each_panel([&](const panel& mine) { begin(mine); });
    const std::int64_t visible = visibility.keys_of(batch, row_end - 1, k.extent[2]);
    for (std::int64_t key0 = 0; key0 < visible; key0 += Shape::key_block) {
      for_each_panel([&](const panel& mine) {
        // In the last panel of a head, only the packs that have queries are computed.
        const std::int64_t rows_left = row_end - mine.row;
        if (rows_left > 2 * W) {
          meet<packs>(mine, key0);
        } else if (rows_left > W) {
          meet<2>(mine, key0);
        } else {
          meet<1>(mine, key0);
        }
      });
    }
    for_each_panel([&](const panel& mine) { finish(mine); });
  }

 private:
  /// Keys that at least one query of a panel sees.
  struct key_block {
    const T *keys, *values;  // of the first
    std::int64_t first;
    int count;
  };

  /// Queries, transposed, with the sign of the scale, into local memory; no offset and no sum yet.
  void begin(const panel& mine) const {
    const int dk = static_cast<int>(q.extent[3]);
    for (int lane = 0; lane < width; lane += W) {
      const std::int64_t row = mine.row + lane, inside = std::max<std::int64_t>(q.extent[2] - row, 0);
      const In* from = q.data + mine.batch * q.stride[0] + mine.head * q.stride[1] + row * q.stride[2];
      T* queries = mine.queries + lane;
      stage<W, 1, 1>(block<In>{from, q.stride[3], q.stride[2], dk, inside}, dk, W, queries, width, 0, 0);
      for (int i = 0; i < dk; ++i) store(queries + i * width, lanes(scale.sign) * load<W>(queries + i * width));
      store(mine.offset + lane, lanes(lowest));
      store(mine.sum + lane, lanes(T(0)));
      store(mine.squares + lane, lanes(T(0)));
    }
    for (std::int64_t i = 0; i < panel::whole_packs(v.extent[3]) * width; i += W) store(mine.outs + i, lanes(T(0)));
  }

  /// Adds what the block of keys from key0 on gives to the queries in the first Packs packs of the panel.
  template <int Packs>
  void meet(const panel& mine, std::int64_t key0) const {
    const std::int64_t first_sees = visibility.keys_of(mine.batch, mine.row, k.extent[2]) - key0;
    const std::int64_t last_sees = visibility.keys_of(mine.batch, mine.row + Packs * W - 1, k.extent[2]) - key0;
    const key_block block{&k(mine.batch, mine.head, key0, 0), &v(mine.batch, mine.head, key0, 0), key0,
                          static_cast<int>(std::min<std::int64_t>(last_sees, Shape::key_block))};
    if (block.count <= 0) return;
    const bool all_see_all = first_sees >= block.count && block.count % rows == 0;
    if (all_see_all && key0 == 0) guess_offsets<Packs>(mine, block);
    if (!all_see_all || !exponentiate<Packs>(mine, block)) exponentiate_with_care<Packs>(mine, block);
    if (sum_of_squares.data != nullptr) add_squares(mine, block.count, Packs);
    multiply_values<Packs>(mine, block);
  }

  /// scores (rows, Packs packs) of the keys of the block from index `key` on, without the size of the scale. Rows
  /// beyond the block repeat its last key.
  template <int Packs>
  void multiply_keys(const panel& mine, const key_block& block, int key, tile<Packs>& scores) const {
    const T* of_key[rows];
    for (int i = 0; i < rows; ++i) of_key[i] = block.keys + std::min(key + i, block.count - 1) * k.stride[2];
    clear_tile(scores);
    if constexpr (HasBias) start_from_bias<Packs>(mine, block, key, scores);
    multiply_tile_rows<width, W>(of_key, mine.queries, static_cast<int>(q.extent[3]), scores);
  }

  template <int Packs>
  void start_from_bias(const panel& mine, const key_block& block, int key, tile<Packs>& scores) const {
    for (int i = 0; i < rows; ++i) {
      const std::int64_t column = block.first + std::min(key + i, block.count - 1);
      for (int p = 0; p < Packs; ++p) {
        scores[i][p] = bias.template of_queries<W>(mine.batch, mine.head, mine.row + p * W, column);
      }
    }
  }

  /// The offsets become the maxima of the first scores.
  template <int Packs>
  void guess_offsets(const panel& mine, const key_block& block) const {
    tile<Packs> scores;
    multiply_keys<Packs>(mine, block, 0, scores);
    for (int p = 0; p < Packs; ++p) {
      lanes offset(lowest);
      for (int i = 0; i < rows; ++i) offset = max(scores[i][p], offset);
      store(mine.offset + p * W, offset);
    }
  }

  /// weights = exponentials of scaled scores - offset, and their sums, if every query sees every key. Returns false,
  /// and leaves the sums, if a score was too large for its offset.
  template <int Packs>
  bool exponentiate(const panel& mine, const key_block& block) const {
    const score_exponential<T> power = exponential;
    lanes offset[Packs], total[Packs], excess(-infinity);
    for (int p = 0; p < Packs; ++p) {
      offset[p] = load<W>(mine.offset + p * W);
      total[p] = lanes(T(0));
    }
    for (int key = 0; key < block.count; key += rows) {
      tile<Packs> scores;
      multiply_keys<Packs>(mine, block, key, scores);
#pragma unroll
      for (int i = 0; i < rows; ++i) {
#pragma unroll
        for (int p = 0; p < Packs; ++p) {
          const lanes x = lanes(scale.size) * (scores[i][p] - offset[p]);
          excess = max(x, excess);
          const lanes e = power(x);
          store(mine.weights + (key + i) * width + p * W, e);
          total[p] += e;
        }
      }
    }
    if (largest(excess) > score_exponential<T>::most) return false;
    for (int p = 0; p < Packs; ++p) store(mine.sum + p * W, load<W>(mine.sum + p * W) + total[p]);
    return true;
  }

  /// As above for any block: the offsets become the maxima so far, sums and out follow; 0 where a query sees no key.
  template <int Packs>
  void exponentiate_with_care(const panel& mine, const key_block& block) const {
    const score_exponential<T> power = exponential;
    for (int key = 0; key < block.count; key += rows) {
      tile<Packs> scores;
      multiply_keys<Packs>(mine, block, key, scores);
      store_tile<W>(mine.weights + key * width, width, scores);
    }
    for (int lane = 0; lane < Packs * W; lane += W) {
      lanes seen;  // keys of the block
      for (int l = 0; l < W; ++l) {
        const std::int64_t sees = visibility.keys_of(mine.batch, mine.row + lane + l, k.extent[2]) - block.first;
        seen.set(l, static_cast<T>(std::clamp<std::int64_t>(sees, 0, block.count)));
      }
      T* weights = mine.weights + lane;
      const lanes before = load<W>(mine.offset + lane);
      lanes after = before;
      for (int key = 0; key < block.count; ++key) {
        const lanes x = load<W>(weights + key * width);
        after = max(where_less(lanes(static_cast<T>(key)), seen, x, lanes(lowest)), after);
      }
      const lanes correction = power(lanes(scale.size) * (before - after));
      lanes total(T(0));
      for (int key = 0; key < block.count; ++key) {
        const lanes x = lanes(scale.size) * (load<W>(weights + key * width) - after);
        const lanes e = where_less(lanes(static_cast<T>(key)), seen, power(x), lanes(T(0)));
        store(weights + key * width, e);
        total += e;
      }
      store(mine.offset + lane, after);
      store(mine.sum + lane, fma(correction, load<W>(mine.sum + lane), total));
      store(mine.squares + lane, correction * correction * load<W>(mine.squares + lane));
      for (std::int64_t c = 0; c < v.extent[3]; ++c) {
        store(mine.outs + c * width + lane, correction * load<W>(mine.outs + c * width + lane));
      }
    }
  }

  void add_squares(const panel& mine, int count, int packs_used) const {
    for (int lane = 0; lane < packs_used * W; lane += W) {
      lanes squares(T(0));
      for (int key = 0; key < count; ++key) {
        const lanes e = load<W>(mine.weights + key * width + lane);
        squares = fma(e, e, squares);
      }
      store(mine.squares + lane, load<W>(mine.squares + lane) + squares);
    }
  }

  /// outs (dv, width) += values^T (dv, count) weights (count, width)
  template <int Packs>
  void multiply_values(const panel& mine, const key_block& block) const {
    std::int64_t column = 0;
    for (; column + rows <= v.extent[3]; column += rows) multiply_columns<rows, Packs>(mine, block, column);
    for (; column < v.extent[3]; ++column) multiply_columns<1, Packs>(mine, block, column);
  }

  template <int Columns, int Packs>
  void multiply_columns(const panel& mine, const key_block& block, std::int64_t column) const {
    lanes sum[Columns][Packs];
    clear_tile(sum);
    multiply_tile_columns<width, W>(block.values + column, v.stride[2], mine.weights, block.count, sum);
    add_tile<W>(mine.outs + column * width, width, sum);
  }

  /// Divides by the sums of the exponentials and writes the queries inside the matrix; zeros if a query sees no key.
  void finish(const panel& mine) const {
    for (int lane = 0; lane < width; lane += W) {
      const int inside = static_cast<int>(std::clamp<std::int64_t>(q.extent[2] - mine.row - lane, 0, W));
      lanes factor(T(0));
      for (int l = 0; l < inside; ++l) {
        const std::int64_t row = mine.row + lane + l;
        const T total = mine.sum[lane + l];
        if (total != T(0)) factor.set(l, T(1) / total);
        if (log_sum_exp.data != nullptr) {
          log_sum_exp(mine.batch, mine.head, row) =
              total == T(0) ? -infinity
                            : scale.size / T(score_exponential<T>::units) * mine.offset[lane + l] + sycl::log(total);
        }
        if (sum_of_squares.data != nullptr) {
          sum_of_squares(mine.batch, mine.head, row) = mine.squares[lane + l] * factor[l] * factor[l];
        }
      }
      for (std::int64_t c = 0; c < v.extent[3]; c += W) {
        lanes columns[W];
#pragma unroll
        for (int i = 0; i < W; ++i) columns[i] = factor * load<W>(mine.outs + (c + i) * width + lane);
        transpose_block(columns);
        write(mine, lane, inside, c, columns);
      }
    }
  }

  /// Columns c .. c + W of out of the first `inside` queries from lane on.
  void write(const panel& mine, int lane, int inside, std::int64_t c, const lanes (&columns)[W]) const {
    const std::int64_t count = std::min<std::int64_t>(v.extent[3] - c, W);
    T* to = &out(mine.batch, mine.head, mine.row + lane, c);
#pragma unroll
    for (int l = 0; l < W; ++l) {
      if (l >= inside) return;
      const lanes of_row = columns[l];
      if (out.stride[3] == 1 && count == W) {
        store(to + l * out.stride[2], of_row);
      } else {
        for (int i = 0; i < count; ++i) to[l * out.stride[2] + i * out.stride[3]] = of_row[i];
      }
    }
  }
};

}  // namespace nullscope::kernels

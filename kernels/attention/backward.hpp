/// Gradients of attention. The matrices of weights and of their gradients are computed block by block, never stored.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <nullscope/core/view.hpp>
#include <sycl/sycl.hpp>

#include "kernels/attention/bias.hpp"
#include "kernels/attention/bias_gradient.hpp"
#include "kernels/attention/shape.hpp"
#include "kernels/group/group.hpp"
#include "kernels/group/sub_group_size.hpp"
#include "kernels/linalg/tile.hpp"

namespace nullscope::kernels {

/// For one batch entry and head, with d_out (queries, dv) and products = row sums of d_out * out:
///
///   weights   = exp(scale q k^T + bias - log_sum_exp)     (queries, keys)
///   d_scores  = weights * (d_out v^T - products)          (queries, keys)
///   d_v += weights^T d_out,  d_k += d_scores^T q,  d_q += d_scores k      (d_q and d_k times scale in the end)
///   d_bias += d_scores, summed over the pairs that share a number of the bias
///
/// Queries and keys are cut into `chunks` chunks each. Group (matrix, i) works on chunk i of the keys and chunk
/// (i + phase) % chunks of the queries. So in one launch no two groups share a row of any gradient, and in the launches
/// phase = 0 ... chunks - 1 each pair of chunks occurs once: five products, no atomics, sums in a fixed order.
///
/// Within its chunks a group takes blocks of Shape::key_block keys by `panels` panels of Shape::rows queries, with
/// weights and d_scores in local memory. Operands come in panels (to_panels): "columns" (d, rows or columns),
/// "rows" (tokens, columns). Sums of the gradients are padded to whole tiles; the last launch writes them to their
/// places.
template <class T, class Shape>
struct attention_backward {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Shape::work_items == 1;
  static constexpr int sub_group_size = one_work_item ? 0 : narrow_sub_group;
  static constexpr T infinity = std::numeric_limits<T>::infinity();
  using lanes = pack<T, Shape::width>;
  using tile = lanes[Shape::rows][Shape::packs];

  const T *q_columns, *d_out_columns;  // (matrices, panels of queries, dk or dv, rows)
  const T *q_rows, *d_out_rows;        // (matrices, panels of dk or dv, queries, columns)
  const T *k_columns, *v_columns;      // (matrices, panels of keys, dk or dv, columns)
  const T* k_rows;                     // (matrices, panels of dk, keys, columns)
  T *d_q, *d_k, *d_v;                  // sums (matrices, padded queries or keys, padded dk or dv)
  view<T, 4> to_q, to_k, to_v;         // (batch, heads, queries or keys, dk or dv)
  view<const T, 3> log_sum_exp;        // (batch, heads, queries)
  const T* products;                   // (matrices, queries)
  score_bias<T> bias;
  bias_gradient<T> d_bias;
  attention_visibility visibility;
  std::int64_t keys, dk, dv;
  T scale;
  std::int64_t panels, chunks, phase;

  static std::int64_t padded_columns(std::int64_t d) {
    return (d + Shape::columns - 1) / Shape::columns * Shape::columns;
  }
  static std::int64_t padded_rows(std::int64_t tokens) {
    return (tokens + Shape::rows - 1) / Shape::rows * Shape::rows;
  }
  static std::int64_t local_bytes(std::int64_t panels) {
    return 2 * panels * Shape::rows * Shape::score_stride * static_cast<std::int64_t>(sizeof(T));
  }

  using items = group<Shape::work_items>;

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    const items members(item);
    const std::int64_t matrix = members.number() / chunks, chunk = members.number() % chunks;
    const std::int64_t queries = log_sum_exp.extent[2];
    const range of_keys(keys, Shape::key_block, chunk, chunks);
    const range of_queries(queries, panels * Shape::rows, (chunk + phase) % chunks, chunks);
    T* weights = reinterpret_cast<T*>(local);
    T* d_scores = weights + panels * Shape::rows * Shape::score_stride;
    if (phase == 0) {
      clear_rows(members, d_k + matrix * padded_rows(keys) * padded_columns(dk), of_keys, padded_columns(dk));
      clear_rows(members, d_v + matrix * padded_rows(keys) * padded_columns(dv), of_keys, padded_columns(dv));
      clear_rows(members, d_q + matrix * padded_rows(queries) * padded_columns(dk), of_queries, padded_columns(dk));
    }
    const std::int64_t batch = matrix / log_sum_exp.extent[1], step = panels * Shape::rows;
    const std::int64_t last_key = std::min(of_keys.last, visibility.keys_of(batch, queries - 1, keys));
    for (std::int64_t key0 = of_keys.first; key0 < last_key; key0 += Shape::key_block) {
      const std::int64_t unseeing = std::max<std::int64_t>(visibility.first_query_of(key0) - of_queries.first, 0);
      members.barrier();
      for (std::int64_t row0 = of_queries.first + unseeing / step * step; row0 < of_queries.last; row0 += step) {
        const std::int64_t rows = std::min(step, of_queries.last - row0);
        const std::int64_t visible = visibility.keys_of(batch, row0 + rows - 1, keys) - key0;  // at least one
        one_block(members,
                  {matrix, key0, row0, static_cast<int>(std::min<std::int64_t>(Shape::key_block, visible)),
                   static_cast<int>(rows), chunk},
                  weights, d_scores);
      }
    }
    if (phase + 1 < chunks) return;
    write_rows(members, matrix, d_q, of_queries, scale, to_q);
    write_rows(members, matrix, d_k, of_keys, scale, to_k);
    write_rows(members, matrix, d_v, of_keys, T(1), to_v);
  }

 private:
  /// Tokens [first, last) of a chunk, which is made of whole blocks.
  struct range {
    range(std::int64_t tokens, std::int64_t block, std::int64_t chunk, std::int64_t chunks) {
      const std::int64_t blocks = (tokens + block - 1) / block;
      first = blocks * chunk / chunks * block;
      last = std::min(blocks * (chunk + 1) / chunks * block, tokens);
    }
    std::int64_t first, last;
  };

  struct block {
    std::int64_t matrix, key0, row0;
    int count, rows;  // keys that some query sees, queries
    std::int64_t chunk;
  };

  static void clear_rows(const items& members, T* gradient, const range& rows, std::int64_t stride) {
    const std::int64_t end = padded_rows(rows.last) * stride;
    std::int64_t i = rows.first * stride + std::int64_t{members.rank()} * Shape::width;
    for (; i < end; i += Shape::width * Shape::work_items) store(gradient + i, lanes(T(0)));
  }

  /// Rows of to (batch, heads, tokens, d) = factor times those of sums (matrices, padded tokens, padded d).
  static void write_rows(const items& members, std::int64_t matrix, const T* sums, const range& rows, T factor,
                         const view<T, 4>& to) {
    const std::int64_t d = to.extent[3], stride = padded_columns(d), heads = to.extent[1];
    const T* from = sums + matrix * padded_rows(to.extent[2]) * stride;
    T* base = to.data + matrix / heads * to.stride[0] + matrix % heads * to.stride[1];
    std::int64_t i = rows.first * stride + std::int64_t{members.rank()} * Shape::width;
    for (; i < rows.last * stride; i += Shape::width * Shape::work_items) {
      const std::int64_t row = i / stride, column = i % stride;
      T* place = base + row * to.stride[2] + column * to.stride[3];
      const lanes value = lanes(factor) * load<Shape::width>(from + i);
      if (to.stride[3] == 1 && column + Shape::width <= d) {
        store(place, value);
        continue;
      }
      for (int l = 0; l < Shape::width && column + l < d; ++l) place[l * to.stride[3]] = value[l];
    }
  }

  void one_block(const items& members, const block& b, T* weights, T* d_scores) const {
    const int id = members.rank();
    const int lane = id % Shape::lanes, worker = id / Shape::lanes;
    const int tiles = (b.count + Shape::rows - 1) / Shape::rows;  // of keys as rows
    for (int column = 0; column < tiles * Shape::rows; column += Shape::columns) {
      for (int row = worker * Shape::rows; row < b.rows; row += Shape::workers * Shape::rows) {
        scores(b, row, column, weights, d_scores, lane);
      }
    }
    members.barrier();
    if (d_bias.is_wanted()) {
      d_bias.template add<Shape>(id, {b.matrix, b.chunk, b.row0, b.key0, b.rows, b.count}, d_scores);
    }
    const std::int64_t queries = log_sum_exp.extent[2];
    // d_q (rows, dk) += d_scores (rows, keys) k (keys, dk)
    for (std::int64_t c = 0; c < dk; c += Shape::columns) {
      const T* k_panel = rows_panel(k_rows, b.matrix, keys, dk, c, b.key0);
      for (int row = worker * Shape::rows; row < b.rows; row += Shape::workers * Shape::rows) {
        T* to = d_q + (b.matrix * padded_rows(queries) + b.row0 + row) * padded_columns(dk) + c;
        add_product<Shape::score_stride, 1>(d_scores + row * Shape::score_stride, k_panel, b.count, to,
                                            padded_columns(dk), lane);
      }
    }
    // d_v (keys, dv) += weights^T (keys, rows) d_out (rows, dv), and d_k from d_scores and q
    for (int t = worker; t < tiles; t += Shape::workers) {
      const std::int64_t key = b.matrix * padded_rows(keys) + b.key0 + t * Shape::rows;
      for (std::int64_t c = 0; c < dv; c += Shape::columns) {
        add_product<1, Shape::score_stride>(weights + t * Shape::rows,
                                            rows_panel(d_out_rows, b.matrix, queries, dv, c, b.row0), b.rows,
                                            d_v + key * padded_columns(dv) + c, padded_columns(dv), lane);
      }
      for (std::int64_t c = 0; c < dk; c += Shape::columns) {
        add_product<1, Shape::score_stride>(d_scores + t * Shape::rows,
                                            rows_panel(q_rows, b.matrix, queries, dk, c, b.row0), b.rows,
                                            d_k + key * padded_columns(dk) + c, padded_columns(dk), lane);
      }
    }
    members.barrier();
  }

  /// Row `token` of the panel that has column c.
  static const T* rows_panel(const T* panels_of, std::int64_t matrix, std::int64_t tokens, std::int64_t d,
                             std::int64_t c, std::int64_t token) {
    return panels_of + ((matrix * padded_columns(d) + c) * tokens + token * Shape::columns);
  }

  /// to (rows, columns) += a (rows, steps) b (steps, columns)
  template <int ARow, int AStep>
  static void add_product(const T* a, const T* b, int steps, T* to, std::int64_t stride, int lane) {
    tile sum;
    clear_tile(sum);
    multiply_tile<ARow, AStep, Shape::columns, Shape::pack_distance>(a, b + lane * Shape::width, steps, sum);
    add_tile<Shape::pack_distance>(to + lane * Shape::width, stride, sum);
  }

  /// A tile of weights and of d_scores, zeros where the query does not see the key.
  void scores(const block& b, int row, int column, T* weights, T* d_scores, int lane) const {
    tile weight, d_weight;
    const int at = row * Shape::score_stride + column + lane * Shape::width;
    clear_tile(weight);
    if (column >= b.count) {  // fills up the last tile of keys
      store_tile<Shape::pack_distance>(weights + at, Shape::score_stride, weight);
      store_tile<Shape::pack_distance>(d_scores + at, Shape::score_stride, weight);
      return;
    }
    const std::int64_t queries = log_sum_exp.extent[2], heads = log_sum_exp.extent[1];
    const std::int64_t batch = b.matrix / heads, head = b.matrix % heads;
    const std::int64_t q_panel = (b.matrix * padded_rows(queries) + b.row0 + row) / Shape::rows;
    const std::int64_t k_panel = (b.matrix * padded_columns(keys) + b.key0 + column) / Shape::columns;
    if (bias.is_present()) {
      for (int i = 0; i < Shape::rows; ++i) {
        for (int p = 0; p < Shape::packs; ++p) {
          const std::int64_t key = b.key0 + column + p * Shape::pack_distance + lane * Shape::width;
          weight[i][p] = bias.template of_keys<Shape::width>(batch, head, b.row0 + row + i, key);
        }
      }
    }
    multiply_tile<1, Shape::rows, Shape::columns, Shape::pack_distance>(
        q_columns + q_panel * dk * Shape::rows, k_columns + k_panel * dk * Shape::columns + lane * Shape::width,
        static_cast<int>(dk), weight);
    T product[Shape::rows];
    std::int64_t seen[Shape::rows];  // of the keys from b.key0 + column on
#pragma unroll
    for (int i = 0; i < Shape::rows; ++i) {
      const std::int64_t query = b.row0 + row + i;
      const bool is_inside = query < queries;
      const T offset = is_inside ? log_sum_exp(batch, head, query) : -infinity;
      product[i] = is_inside ? products[b.matrix * queries + query] : T(0);
      seen[i] = offset == -infinity ? 0 : visibility.keys_of(batch, query, keys) - b.key0 - column;
#pragma unroll
      for (int p = 0; p < Shape::packs; ++p) {
        const lanes of_keys = attention_weight(fma(lanes(scale), weight[i][p], lanes(-offset)));
        weight[i][p] = visible_part(of_keys, seen[i], p, lane);
      }
    }
    store_tile<Shape::pack_distance>(weights + at, Shape::score_stride, weight);

    clear_tile(d_weight);
    multiply_tile<1, Shape::rows, Shape::columns, Shape::pack_distance>(
        d_out_columns + q_panel * dv * Shape::rows, v_columns + k_panel * dv * Shape::columns + lane * Shape::width,
        static_cast<int>(dv), d_weight);
#pragma unroll
    for (int i = 0; i < Shape::rows; ++i) {
#pragma unroll
      for (int p = 0; p < Shape::packs; ++p) {
        const lanes kept = load<Shape::width>(weights + at + i * Shape::score_stride + p * Shape::pack_distance);
        d_weight[i][p] = visible_part(kept * (d_weight[i][p] - lanes(product[i])), seen[i], p, lane);
      }
    }
    store_tile<Shape::pack_distance>(d_scores + at, Shape::score_stride, d_weight);
  }

  /// x where pack p of this lane lies within the first `seen` columns, 0 elsewhere, even if x is NaN there.
  static lanes visible_part(lanes x, std::int64_t seen, int p, int lane) {
    const std::int64_t count = seen - p * Shape::pack_distance - lane * Shape::width;
    return count >= Shape::width ? x : first_lanes_of(x, count);
  }
};

}  // namespace nullscope::kernels

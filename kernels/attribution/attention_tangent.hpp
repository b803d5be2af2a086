/// Tangents of attention: the matrices of weights and of their tangents are computed block by block, never stored.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <nullscope/core/view.hpp>
#include <sycl/sycl.hpp>

#include "kernels/attention/bias.hpp"
#include "kernels/attention/shape.hpp"
#include "kernels/group/group.hpp"
#include "kernels/group/sub_group_size.hpp"
#include "kernels/linalg/tile.hpp"

namespace nullscope::kernels {

/// For one batch entry and head, and for each tangent:
///
///   weights  = exp(scale q k^T + bias - log_sum_exp)              (queries, keys)
///   products = weights * scale (dq k^T + q dk^T)                  (queries, keys)
///   d_out    = products v - rowsum(products) out + weights dv     (queries, dv)
///
/// A work-group takes `panels` panels of Shape::rows queries and `tangents_per_group` tangents. It walks along the keys
/// in blocks; the weights of a block are computed once and used by all of its tangents. Operands come in panels
/// (to_panels): "columns" (d, rows or columns), "rows" (tokens, columns); those with tangents are numbered by batch
/// entry, tangent and head.
template <class T, class Shape>
struct attention_tangent {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Shape::work_items == 1;
  static constexpr int sub_group_size = one_work_item ? 0 : narrow_sub_group;
  static constexpr T infinity = std::numeric_limits<T>::infinity();
  using lanes = pack<T, Shape::width>;
  using tile = lanes[Shape::rows][Shape::packs];

  const T *q_columns, *dq_columns;  // (matrices, panels of queries, dk, rows)
  const T *k_columns, *dk_columns;  // (matrices, panels of keys, dk, columns)
  const T *v_rows, *dv_rows;        // (matrices, panels of dv, keys, columns)
  const T* out_rows;                // (matrices, panels of dv, queries, columns)
  view<const T, 3> log_sum_exp;     // (batch, heads, queries)
  score_bias<T> bias;
  view<T, 5> d_out;  // (tangents, batch, heads, queries, dv)
  attention_visibility visibility;
  std::int64_t keys, dk;
  T scale;
  std::int64_t panels, tangents_per_group;

  static std::int64_t local_bytes(std::int64_t panels) {
    return panels * Shape::rows * (2 * Shape::score_stride + Shape::lanes) * static_cast<std::int64_t>(sizeof(T));
  }

  using items = group<Shape::work_items>;

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    const std::int64_t queries = d_out.extent[3], step = panels * Shape::rows;
    const std::int64_t blocks = (queries + step - 1) / step;
    const std::int64_t chunks = (d_out.extent[0] + tangents_per_group - 1) / tangents_per_group;
    const items members(item);
    const std::int64_t first = members.number() % chunks * tangents_per_group;
    const std::int64_t last = std::min(first + tangents_per_group, d_out.extent[0]);
    block b{};
    b.matrix = members.number() / chunks / blocks;
    b.batch = b.matrix / d_out.extent[2];
    b.head = b.matrix % d_out.extent[2];
    b.row0 = members.number() / chunks % blocks * step;
    b.rows = static_cast<int>(std::min(step, queries - b.row0));
    b.weights = reinterpret_cast<T*>(local);
    b.products = b.weights + step * Shape::score_stride;
    b.sums = b.products + step * Shape::score_stride;
    const std::int64_t visible = visibility.keys_of(b.batch, b.row0 + b.rows - 1, keys);  // the last query sees most
    for (b.key0 = 0; b.key0 == 0 || b.key0 < visible; b.key0 += Shape::key_block) {
      b.count = static_cast<int>(std::min<std::int64_t>(Shape::key_block, visible - b.key0));
      for_row_panels(members, b, [&](int row, int lane) {
        for (int column = 0; column < b.count; column += Shape::columns) weights_of(b, row, column, lane);
      });
      for (std::int64_t t = first; t < last; ++t) {
        const std::int64_t matrix = (b.batch * d_out.extent[0] + t) * d_out.extent[2] + b.head;
        for_row_panels(members, b, [&](int row, int lane) { products_of(b, matrix, row, lane); });
        members.barrier();
        for_row_panels(members, b, [&](int row, int lane) { add_to_out(b, matrix, t, row, lane); });
        members.barrier();
      }
    }
  }

 private:
  struct block {
    std::int64_t matrix, batch, head;  // without tangents
    std::int64_t key0, row0;
    int count, rows;  // keys that some query sees, queries
    T *weights, *products, *sums;
  };

  static std::int64_t padded_columns(std::int64_t d) {
    return (d + Shape::columns - 1) / Shape::columns * Shape::columns;
  }

  /// Calls call(row, lane) for the panels of queries that belong to this work-item's worker.
  template <class Call>
  static void for_row_panels(const items& members, const block& b, Call call) {
    const int id = members.rank();
    const int lane = id % Shape::lanes, worker = id / Shape::lanes;
    for (int row = worker * Shape::rows; row < b.rows; row += Shape::workers * Shape::rows) call(row, lane);
  }

  /// sum (rows, columns) += scores of queries from `row` on and of keys from `column` on.
  void add_scores(const T* query_panels, const T* key_panels, std::int64_t query_matrix, std::int64_t key_matrix,
                  const block& b, int row, int column, int lane, tile& sum) const {
    const std::int64_t padded_queries = (d_out.extent[3] + Shape::rows - 1) / Shape::rows * Shape::rows;
    multiply_tile<1, Shape::rows, Shape::columns, Shape::pack_distance>(
        query_panels + (query_matrix * padded_queries + b.row0 + row) * dk,
        key_panels + (key_matrix * padded_columns(keys) + b.key0 + column) * dk + lane * Shape::width,
        static_cast<int>(dk), sum);
  }

  /// How many keys from b.key0 + column on a query sees; none if it sees nothing, or lies beyond the last one.
  std::int64_t seen_by(const block& b, std::int64_t query, int column) const {
    if (query >= d_out.extent[3] || log_sum_exp(b.batch, b.head, query) == -infinity) return 0;
    return visibility.keys_of(b.batch, query, keys) - b.key0 - column;
  }

  /// A tile of weights, zeros where the query does not see the key.
  void weights_of(const block& b, int row, int column, int lane) const {
    tile weight;
    clear_tile(weight);
    if (bias.is_present()) {
      for (int i = 0; i < Shape::rows; ++i) {
        for (int p = 0; p < Shape::packs; ++p) {
          const std::int64_t key = b.key0 + column + p * Shape::pack_distance + lane * Shape::width;
          weight[i][p] = bias.template of_keys<Shape::width>(b.batch, b.head, b.row0 + row + i, key);
        }
      }
    }
    add_scores(q_columns, k_columns, b.matrix, b.matrix, b, row, column, lane, weight);
#pragma unroll
    for (int i = 0; i < Shape::rows; ++i) {
      const std::int64_t query = b.row0 + row + i, seen = seen_by(b, query, column);
      const T offset = seen > 0 ? log_sum_exp(b.batch, b.head, query) : T(0);
#pragma unroll
      for (int p = 0; p < Shape::packs; ++p) {
        weight[i][p] = visible_part(attention_weight(fma(lanes(scale), weight[i][p], lanes(-offset))), seen, p, lane);
      }
    }
    store_tile<Shape::pack_distance>(place(b.weights, row, column, lane), Shape::score_stride, weight);
  }

  /// The products of a panel of queries with all keys of the block, and this lane's part of their sums.
  void products_of(const block& b, std::int64_t matrix, int row, int lane) const {
    lanes total[Shape::rows];
#pragma unroll
    for (int i = 0; i < Shape::rows; ++i) total[i] = lanes(T(0));
    for (int column = 0; column < b.count; column += Shape::columns) {
      tile product;
      clear_tile(product);
      add_scores(dq_columns, k_columns, matrix, b.matrix, b, row, column, lane, product);
      add_scores(q_columns, dk_columns, b.matrix, matrix, b, row, column, lane, product);
      const T* weight = place(b.weights, row, column, lane);
#pragma unroll
      for (int i = 0; i < Shape::rows; ++i) {
        const std::int64_t seen = seen_by(b, b.row0 + row + i, column);
#pragma unroll
        for (int p = 0; p < Shape::packs; ++p) {
          const lanes kept = load<Shape::width>(weight + i * Shape::score_stride + p * Shape::pack_distance);
          product[i][p] = visible_part(kept * (lanes(scale) * product[i][p]), seen, p, lane);
          total[i] += product[i][p];
        }
      }
      store_tile<Shape::pack_distance>(place(b.products, row, column, lane), Shape::score_stride, product);
    }
#pragma unroll
    for (int i = 0; i < Shape::rows; ++i) b.sums[(row + i) * Shape::lanes + lane] = sum(total[i]);
  }

  /// d_out (rows, dv) = or += products v - rowsum(products) out + weights dv
  void add_to_out(const block& b, std::int64_t matrix, std::int64_t tangent, int row, int lane) const {
    const std::int64_t queries = d_out.extent[3], dv = d_out.extent[4];
    T row_sum[Shape::rows];
#pragma unroll
    for (int i = 0; i < Shape::rows; ++i) {
      row_sum[i] = T(0);
      for (int l = 0; l < Shape::lanes; ++l) row_sum[i] += b.sums[(row + i) * Shape::lanes + l];
    }
    for (std::int64_t c = 0; c < dv; c += Shape::columns) {
      tile result;
      const T* out = rows_panel(out_rows, b.matrix, queries, c, b.row0 + row) + lane * Shape::width;
#pragma unroll
      for (int i = 0; i < Shape::rows; ++i) {
        const bool is_inside = b.row0 + row + i < queries;
#pragma unroll
        for (int p = 0; p < Shape::packs; ++p) {
          result[i][p] = lanes(T(0));
          if (is_inside) {
            result[i][p] = lanes(-row_sum[i]) * load<Shape::width>(out + i * Shape::columns + p * Shape::pack_distance);
          }
        }
      }
      multiply_tile<Shape::score_stride, 1, Shape::columns, Shape::pack_distance>(
          b.products + row * Shape::score_stride, rows_panel(v_rows, b.matrix, keys, c, b.key0) + lane * Shape::width,
          b.count, result);
      multiply_tile<Shape::score_stride, 1, Shape::columns, Shape::pack_distance>(
          b.weights + row * Shape::score_stride, rows_panel(dv_rows, matrix, keys, c, b.key0) + lane * Shape::width,
          b.count, result);
      put(b, tangent, row, c + lane * Shape::width, result);
    }
  }

  /// Row `token` of the panel that has column c of values.
  const T* rows_panel(const T* panels_of, std::int64_t matrix, std::int64_t tokens, std::int64_t c,
                      std::int64_t token) const {
    return panels_of + ((matrix * padded_columns(d_out.extent[4]) + c) * tokens + token * Shape::columns);
  }

  static T* place(T* of_block, int row, int column, int lane) {
    return of_block + row * Shape::score_stride + column + lane * Shape::width;
  }

  /// A tile into d_out: written from the first block of keys, added from the others.
  void put(const block& b, std::int64_t tangent, int row, std::int64_t column0, const tile& result) const {
    const std::int64_t stride = d_out.stride[4];
    for (int i = 0; i < Shape::rows && b.row0 + row + i < d_out.extent[3]; ++i) {
      T* to = &d_out(tangent, b.batch, b.head, b.row0 + row + i, 0);
#pragma unroll
      for (int p = 0; p < Shape::packs; ++p) {
        const std::int64_t column = column0 + p * Shape::pack_distance, left = d_out.extent[4] - column;
        if (stride == 1 && left >= Shape::width) {
          store(to + column, b.key0 == 0 ? result[i][p] : load<Shape::width>(to + column) + result[i][p]);
        } else {
          for (int l = 0; l < Shape::width && l < left; ++l) {
            T& element = to[(column + l) * stride];
            element = b.key0 == 0 ? result[i][p][l] : element + result[i][p][l];
          }
        }
      }
    }
  }

  /// x where pack p of this lane lies within the first `seen` columns, 0 elsewhere, even if x is NaN there.
  static lanes visible_part(lanes x, std::int64_t seen, int p, int lane) {
    const std::int64_t count = seen - p * Shape::pack_distance - lane * Shape::width;
    return count >= Shape::width ? x : first_lanes_of(x, count);
  }
};

}  // namespace nullscope::kernels

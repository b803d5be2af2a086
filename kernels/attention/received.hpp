/// The attention that each key receives: column sums of the weights, which are never stored.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <nullscope/core/view.hpp>
#include <sycl/sycl.hpp>

#include "kernels/attention/bias.hpp"
#include "kernels/attention/shape.hpp"
#include "kernels/group/sub_group_size.hpp"
#include "kernels/linalg/tile.hpp"

namespace nullscope::kernels {

/// received (batch, heads, keys) = sum over queries of exp(scale q k^T + bias - log_sum_exp).
///
/// A worker takes a panel of keys, one key per lane, and walks along the queries that see them, a tile of scores at a
/// time. Keys and queries come as columns, in panels of Shape::columns and of Shape::rows (to_panels). Sums over
/// `panels_of_sum` panels are added to the total, so that rounding errors grow slowly with the number of queries.
template <class T, class Shape>
struct attention_received {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Shape::work_items == 1;
  static constexpr int sub_group_size = one_work_item ? 0 : narrow_sub_group;
  static constexpr int panels_of_sum = 16;
  static constexpr T infinity = std::numeric_limits<T>::infinity();
  using lanes = pack<T, Shape::width>;

  const T* query_panels;         // (batch * heads, panels of queries, dk, rows)
  const T* key_panels;           // (batch * heads, panels of keys, dk, columns)
  view<const T, 3> log_sum_exp;  // (batch, heads, queries)
  view<T, 3> received;
  score_bias<T> bias;
  attention_visibility visibility;
  std::int64_t dk;
  T scale;

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    const int id = static_cast<int>(item.get_local_id(0));
    const int lane = id % Shape::lanes, worker = id / Shape::lanes;
    const std::int64_t queries = log_sum_exp.extent[2], keys = received.extent[2];
    const std::int64_t panels_of_keys = (keys + Shape::columns - 1) / Shape::columns;
    const std::int64_t panel = static_cast<std::int64_t>(item.get_group(0)) * Shape::workers + worker;
    const std::int64_t matrix = panel / panels_of_keys;
    if (matrix >= received.extent[0] * received.extent[1]) return;
    const std::int64_t batch = matrix / received.extent[1], head = matrix % received.extent[1];
    const std::int64_t key0 = panel % panels_of_keys * Shape::columns;
    const std::int64_t panels_of_queries = (queries + Shape::rows - 1) / Shape::rows;
    const T* key_panel = key_panels + panel * dk * Shape::columns + lane * Shape::width;
    const T* query_panel = query_panels + matrix * panels_of_queries * dk * Shape::rows;

    lanes total[Shape::packs], part[Shape::packs];
    for (int p = 0; p < Shape::packs; ++p) total[p] = part[p] = lanes(T(0));
    const std::int64_t first = visibility.first_query_of(key0) / Shape::rows;
    for (std::int64_t q = first; q < panels_of_queries; ++q) {
      add_tile(query_panel + q * dk * Shape::rows, key_panel, batch, head, q * Shape::rows, key0 + lane * Shape::width,
               part);
      if ((q - first) % panels_of_sum < panels_of_sum - 1) continue;
      for (int p = 0; p < Shape::packs; ++p) {
        total[p] += part[p];
        part[p] = lanes(T(0));
      }
    }
    for (int p = 0; p < Shape::packs; ++p) {
      const lanes sum = total[p] + part[p];
      const std::int64_t key = key0 + p * Shape::pack_distance + lane * Shape::width;
      for (int l = 0; l < Shape::width && key + l < keys; ++l) received(batch, head, key + l) = sum[l];
    }
  }

 private:
  /// part (packs) += weights of Shape::rows queries from row0 on. Pack p begins at key + p * pack_distance.
  void add_tile(const T* queries, const T* key_panel, std::int64_t batch, std::int64_t head, std::int64_t row0,
                std::int64_t key, lanes (&part)[Shape::packs]) const {
    lanes score[Shape::rows][Shape::packs];
#pragma unroll
    for (int i = 0; i < Shape::rows; ++i) {
#pragma unroll
      for (int p = 0; p < Shape::packs; ++p) score[i][p] = lanes(T(0));
    }
    if (bias.is_present()) {
      for (int i = 0; i < Shape::rows; ++i) {
        for (int p = 0; p < Shape::packs; ++p) {
          score[i][p] = bias.template of_keys<Shape::width>(batch, head, row0 + i, key + p * Shape::pack_distance);
        }
      }
    }
    multiply_tile<1, Shape::rows, Shape::columns, Shape::pack_distance>(queries, key_panel, static_cast<int>(dk),
                                                                        score);
#pragma unroll
    for (int i = 0; i < Shape::rows; ++i) {
      const std::int64_t row = row0 + i;
      const bool is_inside = row < log_sum_exp.extent[2];
      const T offset = is_inside ? log_sum_exp(batch, head, row) : -infinity;
      const std::int64_t seen = offset == -infinity ? 0 : visibility.keys_of(batch, row, received.extent[2]);
#pragma unroll
      for (int p = 0; p < Shape::packs; ++p) {
        const std::int64_t limit = seen - key - p * Shape::pack_distance;
        const lanes weight = attention_weight(fma(lanes(scale), score[i][p], lanes(-offset)));
        part[p] += limit >= Shape::width ? weight : first_lanes_of(weight, limit);
      }
    }
  }
};

}  // namespace nullscope::kernels

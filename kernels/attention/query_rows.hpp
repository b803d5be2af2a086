/// Copies the queries of a list, and what is added to their scores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <nullscope/core/view.hpp>
#include <sycl/sycl.hpp>

#include "kernels/linalg/row.hpp"

namespace nullscope::kernels {

/// out (heads, m, columns): row rows(head, i) of x (heads, queries, columns); NaN for a row that is not there. One
/// group per row.
template <class T, int W, int Items>
struct gather_queries {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;

  view<const T, 3> x;
  view<const std::int64_t, 2> rows;  // (heads, m)
  view<T, 3> out;
  std::int64_t rows_per_group;
  std::int64_t busy_groups = all_groups;  // the launch sets it, and puts several into a work-group

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    const group<Items> members(item, local, busy_groups);
    for (row_range range(out, members.number(), rows_per_group); !range.empty(); range.advance(1)) {
      const row_index i = range.current();
      const std::int64_t from_row = rows(i.batch, i.row);
      const bool is_there = from_row >= 0 && from_row < x.extent[1];
      const auto from = row_of<W>(x, {i.batch, is_there ? from_row : 0});
      const auto to = row_of<W>(out, i);
      walk<W, 1>(members, x.extent[2], [&](auto, std::int64_t column, auto lanes) {
        to.store(column, is_there ? from.load(column, lanes) : pack<T, W>(std::numeric_limits<T>::quiet_NaN()), lanes);
      });
    }
  }
};

/// out (heads, m, keys): the bias of those queries, or 0 without one; -inf for keys that causal attention hides. A row
/// that is not there gets 0. One group per row.
template <class T, int Items>
struct gather_score_bias {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;

  view<const T, 3> bias;             // (heads, queries, keys), any strides; null: none
  view<const std::int64_t, 2> rows;  // (heads, m)
  view<T, 3> out;
  std::int64_t queries;
  bool causal;
  std::int64_t rows_per_group;
  std::int64_t busy_groups = all_groups;  // the launch sets it, and puts several into a work-group

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    const group<Items> members(item, local, busy_groups);
    const std::int64_t keys = out.extent[2];
    for (row_range range(out, members.number(), rows_per_group); !range.empty(); range.advance(1)) {
      const row_index i = range.current();
      const std::int64_t query = rows(i.batch, i.row);
      const bool is_there = query >= 0 && query < queries;
      const std::int64_t last = causal && is_there ? query + keys - queries : keys;  // that it sees
      for (std::int64_t key = members.rank(); key < keys; key += Items) {
        const T added = bias.data != nullptr && is_there ? bias(i.batch, query, key) : T(0);
        out(i.batch, i.row, key) = key <= last ? added : -std::numeric_limits<T>::infinity();
      }
    }
  }
};

}  // namespace nullscope::kernels

/// Sums of embedding rows, and their gradients.
#pragma once

#include <cstdint>
#include <limits>
#include <nullscope/core/view.hpp>

#include "kernels/linalg/row.hpp"

namespace nullscope::kernels {

/// x (1, batch * S, d): row b S + i = token[ids[b, i]] + position[first_position + i] + segment[segments[b, i]]. An id
/// out of range gives NaN. One group per row.
template <class T, int W, int Items>
struct embedding {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;

  view<const std::int32_t, 2> ids, segments;  // (batch, S); segments null: all 0
  view<const T, 3> token, position, segment;  // (1, rows, d); null: none
  view<T, 3> x;
  std::int64_t first_position, rows_per_group;
  std::int64_t busy_groups = all_groups;  // the launch sets it, and puts several into a work-group

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    const group<Items> members(item, local, busy_groups);
    const std::int64_t tokens = ids.extent[1];
    for (row_range rows(x, members.number(), rows_per_group); !rows.empty(); rows.advance(1)) {
      const std::int64_t row = rows.current().row, b = row / tokens, i = row % tokens;
      const std::int64_t id = ids(b, i), place = first_position + i;
      const std::int64_t part = segments.data == nullptr ? 0 : segments(b, i);
      const bool is_known = id >= 0 && id < token.extent[1] &&
                            (position.data == nullptr || place < position.extent[1]) &&
                            (segment.data == nullptr || (part >= 0 && part < segment.extent[1]));
      const auto to = row_of<W>(x, {0, row});
      walk<W, 1>(members, x.extent[2], [&](auto, std::int64_t c, auto lanes) {
        pack<T, W> sum(std::numeric_limits<T>::quiet_NaN());
        if (is_known) {
          sum = row_of<W>(token, {0, id}).load(c, lanes);
          if (position.data != nullptr) sum += row_of<W>(position, {0, place}).load(c, lanes);
          if (segment.data != nullptr) sum += row_of<W>(segment, {0, part}).load(c, lanes);
        }
        to.store(c, sum, lanes);
      });
    }
  }
};

/// d_table (1, entries, d) += the rows of d_x (1, batch * S, d) whose index is that entry, in the order of the rows. A
/// work-group takes `entries_per_group` entries and looks through all indices: who adds to an entry is always the same.
/// Entry of row b S + i: ids[b, i], or i + first if there are no ids. Rows beyond lengths[b] do not count.
template <class T, int W, int Items>
struct embedding_backward {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;

  view<const std::int32_t, 2> ids;  // (batch, S); null data: positions
  const std::int64_t* lengths;      // null: all tokens count
  view<const T, 3> d_x;
  view<T, 3> d_table;
  std::int64_t batch, tokens, first, entries_per_group;
  bool adds;

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    const group<Items> members(item, local);
    const std::int64_t begin = members.number() * entries_per_group;
    const std::int64_t end = sycl::min(begin + entries_per_group, d_table.extent[1]);
    if (!adds) {
      for (std::int64_t entry = begin; entry < end; ++entry) clear(members, entry);
    }
    for (std::int64_t b = 0; b < batch; ++b) {
      const std::int64_t length = lengths == nullptr ? tokens : lengths[b];
      for (std::int64_t i = 0; i < length; ++i) {
        const std::int64_t entry = ids.data == nullptr ? first + i : ids(b, i);
        if (entry < begin || entry >= end) continue;
        const auto to = row_of<W>(d_table, {0, entry});
        const auto from = row_of<W>(d_x, {0, b * tokens + i});
        walk<W, 1>(members, d_x.extent[2], [&](auto, std::int64_t c, auto lanes) {
          to.store(c, to.load(c, lanes) + from.load(c, lanes), lanes);
        });
      }
    }
  }

 private:
  void clear(const group<Items>& members, std::int64_t entry) const {
    const auto to = row_of<W>(d_table, {0, entry});
    walk<W, 1>(members, d_x.extent[2], [&](auto, std::int64_t c, auto lanes) { to.store(c, pack<T, W>(T(0)), lanes); });
  }
};

}  // namespace nullscope::kernels

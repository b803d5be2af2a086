/// Which rows of which states the probes of a batch read.
#pragma once

#include <cstdint>
#include <nullscope/core/view.hpp>

#include "kernels/linalg/row.hpp"

namespace nullscope::kernels {

/// The states of all tokens: plane 0 is the inputs (tokens, d), plane l the hidden tokens of layer l, from hidden
/// (layers, tokens, d).
template <class T>
struct state_rows {
  const T *inputs, *hidden;
  std::int64_t tokens, width;

  template <int W>
  row<const T, W> at(std::int64_t plane, std::int64_t token) const {
    const T* const from = plane == 0 ? inputs : hidden + (plane - 1) * tokens * width;
    return {from + token * width, 1};
  }
};

/// What a probe reads: entries [first, first + rows) of list `list`, from plane `source`, to find tokens of plane
/// `target`.
struct probe_choice {
  std::int32_t list, source, target;
};

struct probe_lists {
  const std::int32_t* tokens;    // (lists, longest)
  const std::int32_t* counts;    // (lists): entries of each
  const probe_choice* of_probe;  // (probes)
  std::int64_t longest, first, offset;

  /// How many entries of the list are left from `first` on; may be negative.
  std::int64_t left(std::int64_t probe) const { return counts[of_probe[probe].list] - first; }

  /// The token of a row; the row is one of those that are left.
  std::int64_t token(std::int64_t probe, std::int64_t row) const {
    return tokens[of_probe[probe].list * longest + first + row];
  }
};

/// out (probes, rows, d): the source tokens of each probe; zeros behind the end of its list. One group per row.
template <class T, int W, int Items>
struct gather_states {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;

  state_rows<T> states;
  probe_lists lists;
  view<T, 3> out;
  std::int64_t rows_per_group;
  std::int64_t busy_groups = all_groups;  // the launch sets it, and puts several into a work-group

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    const group<Items> members(item, local, busy_groups);
    for (row_range rows(out, members.number(), rows_per_group); !rows.empty(); rows.advance(1)) {
      const row_index i = rows.current();
      const bool is_there = i.row < lists.left(i.batch);
      const std::int64_t token = is_there ? lists.token(i.batch, i.row) : 0;
      const auto from = states.template at<W>(lists.of_probe[i.batch].source, token);
      const auto to = row_of<W>(out, i);
      walk<W, 1>(members, states.width, [&](auto, std::int64_t c, auto lanes) {
        to.store(c, is_there ? from.load(c, lanes) : pack<T, W>(T(0)), lanes);
      });
    }
  }
};

}  // namespace nullscope::kernels

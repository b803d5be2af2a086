/// Scores of keys that are padding.
#pragma once

#include <cstdint>
#include <limits>
#include <nullscope/core/view.hpp>

#include "kernels/linalg/row.hpp"

namespace nullscope::kernels {

/// scores (batch, rows, keys): -inf for keys from lengths[batch] on. One group per row.
template <class T, int Items>
struct mask_keys {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;

  const std::int64_t* lengths;
  view<T, 3> scores;
  std::int64_t rows_per_group;
  std::int64_t busy_groups = all_groups;  // the launch sets it, and puts several into a work-group

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    const group<Items> members(item, local, busy_groups);
    for (row_range rows(scores, members.number(), rows_per_group); !rows.empty(); rows.advance(1)) {
      const row_index i = rows.current();
      for (std::int64_t key = lengths[i.batch] + members.rank(); key < scores.extent[2]; key += Items) {
        scores(i.batch, i.row, key) = -std::numeric_limits<T>::infinity();
      }
    }
  }
};

}  // namespace nullscope::kernels

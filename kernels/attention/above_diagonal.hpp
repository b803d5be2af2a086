/// Zeros above the diagonal of a tile of a batch of matrices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nullscope/core/view.hpp>

#include "kernels/linalg/row.hpp"

namespace nullscope::kernels {

/// x (batch, rows, columns): x_ij = 0 where j - i > last, the place of the diagonal in the tile. A group takes
/// `rows_per_group` rows.
template <class T, int W, int Items>
struct clear_above_diagonal {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;

  view<T, 3> x;
  std::int64_t last;
  std::int64_t rows_per_group;
  std::int64_t busy_groups = all_groups;  // the launch sets it, and puts several into a work-group

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    const group<Items> members(item, local, busy_groups);
    for (row_range rows(x, members.number(), rows_per_group); !rows.empty(); rows.advance(1)) {
      const row_index i = rows.current();
      const std::int64_t seen = sycl::clamp(i.row + last + 1, std::int64_t{0}, x.extent[2]);
      const auto unseen = row_of<W>(x, i).from(seen);
      walk<W, 1>(members, x.extent[2] - seen,
                 [&](auto, std::int64_t column, auto lanes) { unseen.store(column, pack<T, W>(T(0)), lanes); });
    }
  }
};

}  // namespace nullscope::kernels

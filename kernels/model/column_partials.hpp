/// Column sums in two steps with a fixed order: each work-group adds up its rows, then one lane per column adds up the
/// work-groups.
#pragma once

#include <nullscope/core/view.hpp>

#include "kernels/linalg/row.hpp"

namespace nullscope::kernels {

/// The sums of one work-group: partial (groups, parts, columns) in global memory. A work-item always meets the same
/// columns, so that nothing needs to be synchronised.
template <class T>
struct column_partials {
  T* data;
  std::int64_t parts, columns;

  /// Part `part` of group `group`.
  template <int W>
  row<T, W> of(std::int64_t group, std::int64_t part) const {
    return {data + (group * parts + part) * columns, 1};
  }
};

/// partial (groups, 1, columns): sums of x (1, rows, columns) over `rows_per_group` rows each. One group for each.
template <class T, int W, int Items>
struct sum_columns {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;

  view<const T, 3> x;
  column_partials<T> partial;
  std::int64_t rows_per_group;

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    const group<Items> members(item, local);
    const std::int64_t begin = members.number() * rows_per_group;
    const std::int64_t end = sycl::min(begin + rows_per_group, x.extent[1]);
    const auto to = partial.template of<W>(members.number(), 0);
    walk<W, 1>(members, x.extent[2], [&](auto, std::int64_t c, auto lanes) {
      pack<T, W> sum(T(0));
      for (std::int64_t i = begin; i < end; ++i) sum += row_of<W>(x, {0, i}).load(c, lanes);
      to.store(c, sum, lanes);
    });
  }
};

/// out[part] (columns) = the sum of partial (groups, parts, columns) over the groups, or added to what is there; parts
/// without memory are skipped. One work-item per column.
template <class T>
struct add_partials {
  static constexpr const char* source = __FILE__;
  static constexpr int most_parts = 3;

  column_partials<T> partial;
  std::int64_t groups;
  view<T, 1> out[most_parts];
  bool adds;

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    const std::int64_t column = item.get_global_linear_id();
    if (column >= partial.columns) return;
    for (std::int64_t part = 0; part < partial.parts; ++part) {
      if (out[part].data == nullptr) continue;
      T sum = 0;
      for (std::int64_t group = 0; group < groups; ++group) {
        sum += partial.data[(group * partial.parts + part) * partial.columns + column];
      }
      T& to = out[part](column);
      to = adds ? to + sum : sum;
    }
  }
};

}  // namespace nullscope::kernels

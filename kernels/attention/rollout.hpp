/// The mean of the heads of a layer as one row-stochastic matrix, with the residual connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nullscope/core/view.hpp>

#include "kernels/linalg/row.hpp"

namespace nullscope::kernels {

/// a (heads, S, S), m_ij = sum of |a| over the heads -> out (1, S, S) = (1 - residual) m_ij / sum_k m_ik + residual [i
/// = j]; a row without weight is that of the identity. A group takes `rows_per_group` rows.
template <class T, int W, int Items>
struct rollout_layer {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;
  using numbers = pack<T, W>;

  view<const T, 3> a;
  view<T, 3> out;
  T residual;
  std::int64_t rows_per_group;
  std::int64_t busy_groups = all_groups;  // the launch sets it, and puts several into a work-group

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    group<Items> members(item, local, busy_groups);
    for (row_range rows(out, members.number(), rows_per_group); !rows.empty(); rows.advance(1)) {
      const std::int64_t i = rows.current().row, columns = out.extent[2];
      const auto to = row_of<W>(out, {0, i});
      T total[1];
      reduce_rows<T, W>(
          members, columns, T(0),
          [&](int, std::int64_t column, auto lanes) {
            numbers sum(T(0));
            for (std::int64_t head = 0; head < a.extent[0]; ++head) {
              sum += abs(row_of<W>(a, {head, i}).load(column, lanes));
            }
            to.store(column, sum, lanes);
            return sum;
          },
          [](auto element, auto sum) { return element + sum; }, [](auto x, auto y) { return x + y; }, total);
      const bool is_empty = total[0] == 0;
      const T factor = is_empty ? T(0) : (T(1) - residual) / total[0];
      walk<W, 1>(members, columns, [&](auto, std::int64_t column, auto lanes) {
        to.store(column, to.load(column, lanes) * numbers(factor), lanes);  // what this work-item stored above
      });
      members.barrier();
      if (members.rank() == 0) out(0, i, i) += is_empty ? T(1) : residual;
    }
  }
};

}  // namespace nullscope::kernels

/// Correlation and norms of raw attention and of effective attention by rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nullscope/core/view.hpp>
#include <sycl/sycl.hpp>

#include "kernels/attention/effective_summary.hpp"
#include "kernels/group/group.hpp"

namespace nullscope::kernels {

/// One group per head adds up what attention_by_rows found for each row. The correlation is that of the pairs that the
/// mask lets see.
template <class T, class Sum, int Items>
struct by_rows_summary {
  static constexpr const char* source = __FILE__;
  using number = pack<Sum, 1>;

  view<const T, 2> row_squares;      // (heads, queries): of the rows of A
  view<const T, 3> row_sums;         // (heads, queries, 2): |a|^2 and the sum of a, of the projected rows
  view<const std::int64_t, 1> rank;  // (heads)
  view<T, 2> summary;                // (heads, 4)
  std::int64_t visible_queries, keys;
  Sum pairs;

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    group<Items> members(item, local);
    const std::int64_t head = members.number();
    Sum raw_squares(0), squares(0), sum(0);
    for (std::int64_t i = members.rank(); i < row_squares.extent[1]; i += Items) {
      raw_squares += static_cast<Sum>(row_squares(head, i));
      squares += static_cast<Sum>(row_sums(head, i, 0));
      sum += static_cast<Sum>(row_sums(head, i, 1));
    }
    raw_squares = members.sum(number(raw_squares));
    squares = members.sum(number(squares));
    sum = members.sum(number(sum));
    if (members.rank() != 0) return;
    const attention_moments<Sum> moments{raw_squares, squares, static_cast<Sum>(visible_queries),
                                         sum,         pairs,   rank(head) != keys};
    moments.write(summary, head);
  }
};

}  // namespace nullscope::kernels

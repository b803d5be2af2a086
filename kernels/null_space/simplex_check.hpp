/// Checks alternatives to attention: the same sums, no negative weight, no difference in the span of T and 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nullscope/core/view.hpp>
#include <sycl/sycl.hpp>

#include "kernels/group/sub_group_size.hpp"
#include "kernels/linalg/row.hpp"

namespace nullscope::kernels {

/// difference (heads, alternatives, rows, S) = alternative - a, and figures (heads, alternatives, rows, 3) of each row:
/// |sum of the difference|, how far the smallest entry is below zero, and |a| + |difference|, which rounding is
/// relative to. One group per row.
template <class T, int W, int Items>
struct simplex_differences {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;
  static constexpr int sub_group_size = one_work_item ? 0 : narrow_sub_group;
  using numbers = pack<T, W>;

  view<const T, 3> a;
  view<const T, 4> alternatives;
  view<T, 4> difference, figures;
  std::int64_t busy_groups = all_groups;  // the launch sets it, and puts several into a work-group

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    group<Items> members(item, local, busy_groups);
    const std::int64_t rows = difference.extent[2], number = members.number();
    const std::int64_t i = number % rows, alternative = number / rows % difference.extent[1];
    const std::int64_t head = number / rows / difference.extent[1];
    const row<const T, W> weights = row_of<W>(a, {head, i});
    const row<const T, W> from{&alternatives(head, alternative, i, 0), alternatives.stride[3]};
    const row<T, W> to{&difference(head, alternative, i, 0), 1};

    numbers sum(0), squares(0), squares_of_a(0), below(0);
    walk<W, 1>(members, difference.extent[3], [&](int, std::int64_t c, auto lanes) {
      const numbers x = from.load(c, lanes), weight = weights.load(c, lanes), d = x - weight;
      to.store(c, d, lanes);
      sum += d;
      squares = fma(d, d, squares);
      squares_of_a = fma(weight, weight, squares_of_a);
      below = max_or_nan(below, -x);
    });
    const T total = members.sum(sum);
    const T length = sycl::sqrt(members.sum(squares)) + sycl::sqrt(members.sum(squares_of_a));
    const T least = members.reduce(below, [](auto x, auto y) { return max_or_nan(x, y); });
    if (members.rank() != 0) return;
    figures(head, alternative, i, 0) = total < 0 ? -total : total;
    figures(head, alternative, i, 1) = least;
    figures(head, alternative, i, 2) = length;
  }
};

/// checks (heads, alternatives, 3): the largest of the rows' figures; the third is the largest |coefficient| of a
/// difference along the basis, relative to that length. coefficients (heads, alternatives, rows, columns). One
/// work-item per alternative: there is little to do.
template <class T>
struct simplex_worst {
  static constexpr const char* source = __FILE__;
  using number = pack<T, 1>;

  view<const T, 4> figures, coefficients;
  view<T, 3> checks;

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    const std::int64_t group = item.get_global_linear_id(), head = group / checks.extent[1];
    const std::int64_t alternative = group % checks.extent[1];
    number worst[3] = {0, 0, 0};
    for (std::int64_t i = 0; i < figures.extent[2]; ++i) {
      for (int f = 0; f < 2; ++f) worst[f] = max_or_nan(worst[f], number(figures(head, alternative, i, f)));
      number along(0);
      for (std::int64_t c = 0; c < coefficients.extent[3]; ++c) {
        along = max_or_nan(along, abs(number(coefficients(head, alternative, i, c))));
      }
      const T length = figures(head, alternative, i, 2);
      if (length != 0) worst[2] = max_or_nan(worst[2], number(along.lanes / length));
    }
    for (int f = 0; f < 3; ++f) checks(head, alternative, f) = worst[f].lanes;
  }
};

}  // namespace nullscope::kernels

/// Moves rows of attention along directions of the null space, up to the boundary of the simplex.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <nullscope/core/view.hpp>
#include <sycl/sycl.hpp>

#include "kernels/linalg/row.hpp"

namespace nullscope::kernels {

/// out (heads, alternatives, rows, S) holds directions x and becomes max(0, a + lambda x), with a (heads, rows, S) and
/// lambda (heads, alternatives, rows) = share * min over x_j < 0 of a_j / -x_j. The entry that limits lambda may fall
/// below zero by rounding, hence the maximum. If the basis fills the space (rank = S), directions are rounding errors
/// and lambda is zero. NaN in a row of a or x, or a negative rank (not known), makes lambda and the whole row NaN. One
/// group per row.
template <class T, int W, int Items>
struct simplex_rows {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;
  static constexpr T infinity = std::numeric_limits<T>::infinity();
  using numbers = pack<T, W>;

  view<const T, 3> a;
  view<const std::int64_t, 1> rank;
  view<T, 4> out;
  view<T, 3> lambda;
  T share;
  std::int64_t busy_groups = all_groups;  // the launch sets it, and puts several into a work-group

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    group<Items> members(item, local, busy_groups);
    const std::int64_t tokens = out.extent[3], number = members.number();
    const std::int64_t i = number % out.extent[2], alternative = number / out.extent[2] % out.extent[1];
    const std::int64_t head = number / out.extent[2] / out.extent[1];
    const row<const T, W> weights = row_of<W>(a, {head, i});
    const row<T, W> to{&out(head, alternative, i, 0), out.stride[3]};

    numbers least(infinity);
    walk<W, 1>(members, tokens, [&](auto, std::int64_t c, auto lanes) {
      const numbers x = to.load(c, lanes), weight = weights.load(c, lanes);
      // Entries that grow do not limit lambda; a sum of NaN and infinity is NaN.
      least = min_or_nan(where_less(x, numbers(0), weight / -x, x + weight + numbers(infinity)), least);
    });
    const T nearest = members.reduce(least, [](auto x, auto y) { return min_or_nan(x, y); });
    const T reach = rank(head) < tokens && nearest < infinity ? share * nearest : T(0);
    const bool is_known = nearest == nearest && rank(head) >= 0;
    const T factor = is_known ? reach : std::numeric_limits<T>::quiet_NaN();
    walk<W, 4>(members, tokens, [&](int, std::int64_t c, auto lanes) {
      const numbers moved = fma(numbers(factor), to.load(c, lanes), weights.load(c, lanes));
      to.store(c, max_or_nan(moved, numbers(0)), lanes);
    });
    if (members.rank() == 0) lambda(head, alternative, i) = factor;
  }

 private:
  template <class Pack>
  static Pack min_or_nan(Pack x, Pack y) {
    return -max_or_nan(-x, -y);
  }
};

}  // namespace nullscope::kernels

/// Triangular systems, one lane per column.
#pragma once

#include <cstdint>
#include <nullscope/core/operation.hpp>

#include "kernels/linalg/least_squares.hpp"
#include "lib/src/core/dispatch.hpp"
#include "lib/src/core/ranges.hpp"
#include "lib/src/core/strides.hpp"

namespace nullscope::detail {

/// Launches x (batch, n, k) = r^-1 c for upper triangular r (batch, n, n); x may be c.
template <class T>
void back_substitute(operation& op, const view<const T, 3>& r, const view<const T, 3>& c, const view<T, 3>& x) {
  const auto launch = [&]<int W>() {
    constexpr std::int64_t items = W > 1 ? 1 : 64;  // of a work-group
    const std::int64_t strips = ceil_div(x.extent[2], W);
    op.launch(groups_of(ceil_div(x.extent[0] * strips, items), items), 0,
              kernels::back_substitution<T, W>{r, c, x, strips});
  };
  if (has_neighbours(x) && has_neighbours(c)) {
    dispatch_lanes<T>(op.ctx().layout(), launch);
  } else {
    launch.template operator()<1>();
  }
}

}  // namespace nullscope::detail

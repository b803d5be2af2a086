/// Zeros, ones and unit matrices in the workspace.
#pragma once

#include <cstdint>
#include <nullscope/core/operation.hpp>
#include <nullscope/core/view.hpp>
#include <nullscope/linalg/rows.hpp>

namespace nullscope::detail {

/// x, densely packed, is filled; returns x.
template <class T, int Rank>
view<T, Rank> fill_value(operation& op, const view<T, Rank>& x, T value) {
  if (x.empty()) return x;
  op.run([=](sycl::queue& queue, const events& dependencies) {
    return queue.fill(x.data, value, static_cast<std::size_t>(x.size()), dependencies);
  });
  return x;
}
template <class T, int Rank>
view<T, Rank> fill_zeros(operation& op, const view<T, Rank>& x) {
  return fill_value(op, x, T(0));
}
template <class T, int Rank>
view<T, Rank> fill_ones(operation& op, const view<T, Rank>& x) {
  return fill_value(op, x, T(1));
}

/// The unit matrix (n, n).
template <class T>
view<T, 2> take_identity(operation& op, std::int64_t n) {
  const view<T, 2> identity = op.take_array<T>(n, n);
  fill_zeros(op, identity);
  const view<T, 1> one = fill_ones(op, op.take_array<T>(1));
  copy(op.ctx(), view<const T, 3>{one.data, {1, 1, n}, {0, 0, 0}}, view<T, 3>{identity.data, {1, 1, n}, {0, 0, n + 1}});
  return identity;
}

}  // namespace nullscope::detail

/// Unit matrices in the workspace.
#pragma once

#include <cstdint>
#include <nullscope/core/operation.hpp>
#include <nullscope/core/view.hpp>
#include <nullscope/linalg/rows.hpp>

#include "lib/src/core/fill.hpp"

namespace nullscope::detail {

/// The unit matrix (n, n).
template <class T>
view<T, 2> take_identity(operation& op, std::int64_t n) {
  const view<T, 2> identity = op.take_array<T>(n, n);
  const view<T, 1> one = op.take_array<T>(1);
  fill_zero(op, identity);
  fill_value(op, one, T(1));
  copy(op.ctx(), view<const T, 3>{one.data, {1, 1, n}, {0, 0, 0}}, view<T, 3>{identity.data, {1, 1, n}, {0, 0, n + 1}});
  return identity;
}

}  // namespace nullscope::detail

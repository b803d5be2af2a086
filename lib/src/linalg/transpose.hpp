/// Out-of-place transposes of dense matrices.
#pragma once

#include <nullscope/core/operation.hpp>
#include <nullscope/core/view.hpp>

namespace nullscope::detail {

/// out (batch, columns, rows) = the transpose of x (batch, rows, columns), where the last stride of both is 1.
template <class T>
void transpose_dense(operation& op, const view<const T, 3>& x, const view<T, 3>& out);

}  // namespace nullscope::detail

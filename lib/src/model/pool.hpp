/// One row per sequence, and back.
#pragma once

#include <cstdint>
#include <nullscope/core/context.hpp>
#include <nullscope/core/view.hpp>
#include <nullscope/model/transformer.hpp>

namespace nullscope::detail {

/// out (batch, d) from x (batch, S, d).
template <class T>
void pool_tokens(context& ctx, pooling kind, const view<const T, 3>& x, const view<const std::int64_t, 1>& lengths,
                 const view<T, 2>& out);

/// d_x (batch, S, d) = the gradient of the above for d_out (batch, d), or added to d_x.
template <class T>
void unpool_tokens(context& ctx, pooling kind, const view<const T, 2>& d_out,
                   const view<const std::int64_t, 1>& lengths, const view<T, 3>& d_x, bool adds);

}  // namespace nullscope::detail

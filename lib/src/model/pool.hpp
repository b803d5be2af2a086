/// One row per sequence, and back; the bias by relative positions.
#pragma once

#include <cstdint>
#include <nullscope/context.hpp>
#include <nullscope/transformer_config.hpp>
#include <nullscope/view.hpp>

namespace nullscope::detail {

/// out (batch, d) from x (batch, S, d).
template <class T>
void pool_tokens(context& ctx, pooling kind, const view<const T, 3>& x, const view<const std::int64_t, 1>& lengths,
                 const view<T, 2>& out);

/// d_x (batch, S, d) = the gradient of the above for d_out (batch, d), or added to d_x.
template <class T>
void unpool_tokens(context& ctx, pooling kind, const view<const T, 2>& d_out,
                   const view<const std::int64_t, 1>& lengths, const view<T, 3>& d_x, bool adds);

/// table (heads, 2 S - 1) of the bias for every distance, from weights (buckets, heads).
template <class T>
void relative_bias(context& ctx, const transformer_config& config, const view<const T, 2>& weights,
                   const view<T, 2>& table);

/// Adds the gradient of the weights for d_table.
template <class T>
void relative_bias_backward(context& ctx, const transformer_config& config, const view<const T, 2>& d_table,
                            const view<T, 2>& d_weights);

/// The table as the bias that attention takes: (batch, heads, queries, S), with queries from the first token on.
template <class T>
view<T, 4> bias_of(const view<T, 2>& table, std::int64_t batch, std::int64_t queries, std::int64_t tokens) {
  return {table.data + tokens - 1, {batch, table.extent[0], queries, tokens}, {0, table.stride[0], -1, 1}};
}

}  // namespace nullscope::detail

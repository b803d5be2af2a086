/// The bias of attention by relative positions, as MPNet and T5 have it: one number per head and bucket of distances.
///
///   weights (buckets, heads)  ->  table (heads, 2 S - 1):  table[h, S - 1 + key - query] = weights[bucket, h]
///
/// The table is a bias of attention without S x S numbers:
///
///   relative_bias(ctx, weights, table);
///   attention(ctx, {q, k, v, relative_bias_view(table, batch)}, {.out = out});
///
/// Half of the buckets are for keys before the query or at it, half for keys after it. In each half, the first half of
/// the buckets stand for one distance each; the others grow in size, and the last one has all distances from
/// `options.distance` on.
///
/// Throws invalid_argument (shapes, strides, null pointers; buckets that are odd, fewer than 4 or more than 256; a
/// distance that is too small for them) or unsupported_device (no 64-bit floating point); see context.hpp.
#pragma once

#include <cstdint>
#include <nullscope/context.hpp>
#include <nullscope/operation.hpp>
#include <nullscope/view.hpp>
#include <sycl/sycl.hpp>

namespace nullscope {

struct relative_bias_options {
  std::int64_t distance = 128;  ///< from here on, all distances share a bucket; above buckets / 4
};

/// The bucket of key - query.
std::int64_t relative_bucket(std::int64_t key_minus_query, std::int64_t buckets, std::int64_t distance = 128);

/// Overwrites the table (heads, 2 S - 1).
sycl::event relative_bias(context& ctx, view<const float, 2> weights, view<float, 2> table,
                          const relative_bias_options& options = {}, const events& dependencies = {});
sycl::event relative_bias(context& ctx, view<const double, 2> weights, view<double, 2> table,
                          const relative_bias_options& options = {}, const events& dependencies = {});

/// Adds the gradient d_table (heads, 2 S - 1) to d_weights (buckets, heads), in a fixed order.
sycl::event relative_bias_backward(context& ctx, view<const float, 2> d_table, view<float, 2> d_weights,
                                   const relative_bias_options& options = {}, const events& dependencies = {});
sycl::event relative_bias_backward(context& ctx, view<const double, 2> d_table, view<double, 2> d_weights,
                                   const relative_bias_options& options = {}, const events& dependencies = {});

/// The table, or its gradient, as (batch, heads, S, S): the same for all sequences.
template <class T>
view<T, 4> relative_bias_view(const view<T, 2>& table, std::int64_t batch) {
  const std::int64_t tokens = (table.extent[1] + 1) / 2, step = table.stride[1];
  return {
      table.data + (tokens - 1) * step, {batch, table.extent[0], tokens, tokens}, {0, table.stride[0], -step, step}};
}

}  // namespace nullscope

#include "lib/src/model/pool.hpp"

#include <cmath>
#include <nullscope/operation.hpp>

#include "kernels/model/pool.hpp"
#include "kernels/model/relative_bias.hpp"
#include "lib/src/core/ranges.hpp"
#include "lib/src/core/strides.hpp"
#include "lib/src/core/team.hpp"

namespace nullscope::detail {
namespace {

kernels::pool_kind kind_of(pooling kind) {
  switch (kind) {
    case pooling::first: return kernels::pool_kind::first;
    case pooling::last: return kernels::pool_kind::last;
    case pooling::mean: break;
  }
  return kernels::pool_kind::mean;
}

/// The buckets of T5 and MPNet: half of each direction's buckets for single distances, the others on a logarithmic
/// scale up to relative_distance. In float, as these models were trained with it.
kernels::distance_buckets buckets_of(const transformer_config& config) {
  kernels::distance_buckets result{};
  result.half = static_cast<std::int32_t>(config.relative_buckets / 2);
  result.small = result.half / 2;
  const float scale = static_cast<float>(std::log(static_cast<double>(config.relative_distance) / result.small));
  std::int32_t bucket = result.small;
  for (std::int32_t distance = result.small; bucket < result.half; ++distance) {
    const float position = std::log(static_cast<float>(distance) / static_cast<float>(result.small)) / scale *
                           static_cast<float>(result.half - result.small);
    const std::int32_t of_distance = result.small + static_cast<std::int32_t>(position);
    for (; bucket <= of_distance && bucket < result.half; ++bucket) result.starts[bucket - result.small] = distance;
  }
  return result;
}

}  // namespace

template <class T>
void pool_tokens(context& ctx, pooling kind, const view<const T, 3>& x, const view<const std::int64_t, 1>& lengths,
                 const view<T, 2>& out) {
  operation op(ctx, "pool_tokens");
  const team_shape team = choose_team(ctx.layout(), x.extent[2], has_neighbours(x) && has_neighbours(out));
  with_team<sizeof(T)>(team, [&]<int W, int Items>() {
    op.launch(groups_of(x.extent[0], Items), kernels::team<Items>::local_bytes,
              kernels::pool_tokens<T, W, Items>{x, out, lengths.data, kind_of(kind)});
  });
  op.submit();
}

template <class T>
void unpool_tokens(context& ctx, pooling kind, const view<const T, 2>& d_out,
                   const view<const std::int64_t, 1>& lengths, const view<T, 3>& d_x, bool adds) {
  operation op(ctx, "unpool_tokens");
  const team_shape team = choose_team(ctx.layout(), d_x.extent[2], has_neighbours(d_x) && has_neighbours(d_out));
  with_team<sizeof(T)>(team, [&]<int W, int Items>() {
    op.launch(groups_of(d_x.extent[0] * d_x.extent[1], Items), kernels::team<Items>::local_bytes,
              kernels::unpool_tokens<T, W, Items>{d_out, d_x, lengths.data, kind_of(kind), adds});
  });
  op.submit();
}

template <class T>
void relative_bias(context& ctx, const transformer_config& config, const view<const T, 2>& weights,
                   const view<T, 2>& table) {
  operation op(ctx, "relative_bias");
  constexpr std::int64_t items = 64;
  op.launch(groups_of(ceil_div(table.size(), items), items), 0,
            kernels::relative_bias<T>{weights, table, buckets_of(config)});
  op.submit();
}

template <class T>
void relative_bias_backward(context& ctx, const transformer_config& config, const view<const T, 2>& d_table,
                            const view<T, 2>& d_weights) {
  operation op(ctx, "relative_bias_backward");
  constexpr std::int64_t items = 64;
  op.launch(groups_of(ceil_div(d_weights.size(), items), items), 0,
            kernels::relative_bias_backward<T>{d_table, d_weights, buckets_of(config)});
  op.submit();
}

template void pool_tokens(context&, pooling, const view<const float, 3>&, const view<const std::int64_t, 1>&,
                          const view<float, 2>&);
template void pool_tokens(context&, pooling, const view<const double, 3>&, const view<const std::int64_t, 1>&,
                          const view<double, 2>&);
template void unpool_tokens(context&, pooling, const view<const float, 2>&, const view<const std::int64_t, 1>&,
                            const view<float, 3>&, bool);
template void unpool_tokens(context&, pooling, const view<const double, 2>&, const view<const std::int64_t, 1>&,
                            const view<double, 3>&, bool);
template void relative_bias(context&, const transformer_config&, const view<const float, 2>&, const view<float, 2>&);
template void relative_bias(context&, const transformer_config&, const view<const double, 2>&, const view<double, 2>&);
template void relative_bias_backward(context&, const transformer_config&, const view<const float, 2>&,
                                     const view<float, 2>&);
template void relative_bias_backward(context&, const transformer_config&, const view<const double, 2>&,
                                     const view<double, 2>&);

}  // namespace nullscope::detail

#include "lib/src/model/pool.hpp"

#include <nullscope/core/operation.hpp>

#include "kernels/model/pool.hpp"
#include "lib/src/core/ranges.hpp"
#include "lib/src/core/strides.hpp"
#include "lib/src/linalg/row_launch.hpp"

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

}  // namespace

template <class T>
void pool_tokens(context& ctx, pooling kind, const view<const T, 3>& x, const view<const std::int64_t, 1>& lengths,
                 const view<T, 2>& out) {
  operation op(ctx, "pool_tokens");
  const row_shape shape = choose_row_shape(ctx.layout(), x.extent[2], has_neighbours(x) && has_neighbours(out));
  dispatch_rows<T>(shape, [&]<int W, int Items>() {
    launch_groups<Items>(op, x.extent[0], kernels::pool_tokens<T, W, Items>{x, out, lengths.data, kind_of(kind)});
  });
  op.submit();
}

template <class T>
void unpool_tokens(context& ctx, pooling kind, const view<const T, 2>& d_out,
                   const view<const std::int64_t, 1>& lengths, const view<T, 3>& d_x, bool adds) {
  operation op(ctx, "unpool_tokens");
  const row_shape shape = choose_row_shape(ctx.layout(), d_x.extent[2], has_neighbours(d_x) && has_neighbours(d_out));
  dispatch_rows<T>(shape, [&]<int W, int Items>() {
    launch_groups<Items>(op, d_x.extent[0] * d_x.extent[1],
                         kernels::unpool_tokens<T, W, Items>{d_out, d_x, lengths.data, kind_of(kind), adds});
  });
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

}  // namespace nullscope::detail

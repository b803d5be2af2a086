#include "lib/src/attribution/row_products.hpp"

#include "kernels/attribution/layer_norm_product.hpp"
#include "kernels/attribution/normalise_rows.hpp"
#include "lib/src/core/strides.hpp"
#include "lib/src/linalg/row_launch.hpp"

namespace nullscope::detail {
namespace {

template <bool Transposed, class T>
void multiply_by_norm(context& ctx, const norm_at_tokens<T>& norm, const view<const T, 3>& x, const view<T, 3>& y) {
  operation op(ctx, "layer_norm_product");
  const bool neighbours =
      has_neighbours(x) && has_neighbours(y) && has_neighbours(norm.sum) && has_neighbours(norm.gamma);
  launch_rows<T>(op, {x.extent[0] * x.extent[1], x.extent[2], neighbours}, [&]<int W, int Items>() {
    return kernels::layer_norm_product<T, W, Items, Transposed>{
        x, y, norm.sum, norm.gamma, norm.mean, norm.inverse_deviation, 0};
  });
  op.submit();
}

}  // namespace

template <class T>
void norm_product(context& ctx, const norm_at_tokens<T>& norm, const view<const T, 3>& x, const view<T, 3>& y) {
  multiply_by_norm<false>(ctx, norm, x, y);
}

template <class T>
void norm_transposed_product(context& ctx, const norm_at_tokens<T>& norm, const view<const T, 3>& x,
                             const view<T, 3>& y) {
  multiply_by_norm<true>(ctx, norm, x, y);
}

template <class T>
void normalise_rows(context& ctx, const view<T, 3>& x, const view<T, 2>& norm) {
  operation op(ctx, "normalise_rows");
  launch_rows<T>(op, {x.extent[0] * x.extent[1], x.extent[2], has_neighbours(x)}, [&]<int W, int Items>() {
    return kernels::normalise_rows<T, W, Items>{x, norm, 0};
  });
  op.submit();
}

template void norm_product(context&, const norm_at_tokens<float>&, const view<const float, 3>&, const view<float, 3>&);
template void norm_product(context&, const norm_at_tokens<double>&, const view<const double, 3>&,
                           const view<double, 3>&);
template void norm_transposed_product(context&, const norm_at_tokens<float>&, const view<const float, 3>&,
                                      const view<float, 3>&);
template void norm_transposed_product(context&, const norm_at_tokens<double>&, const view<const double, 3>&,
                                      const view<double, 3>&);
template void normalise_rows(context&, const view<float, 3>&, const view<float, 2>&);
template void normalise_rows(context&, const view<double, 3>&, const view<double, 2>&);

}  // namespace nullscope::detail

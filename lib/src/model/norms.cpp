#include <nullscope/model/layers.hpp>

#include "kernels/model/layer_norm_residual.hpp"
#include "lib/src/core/checks.hpp"
#include "lib/src/core/strides.hpp"
#include "lib/src/linalg/row_launch.hpp"
#include "lib/src/model/column_sums.hpp"

namespace nullscope {
namespace {

template <class... Views>
bool all_neighbours(const Views&... views) {
  return ((views.is_absent() || detail::has_neighbours(views)) && ...);
}

template <class T>
sycl::event run_forward(context& ctx, const layer_norm_residual_operands<T>& operands,
                        const layer_norm_residual_results<T>& results, const layer_norm_residual_options& options,
                        const events& dependencies) {
  constexpr const char* name = "layer_norm_residual";
  const auto& [x, residual, gamma, beta, bias, next_bias] = operands;
  const std::int64_t rows = x.extent[0], columns = x.extent[1];
  check::device_type<T>(name, ctx);
  check::input(name, "x", x);
  check::optional_input(name, "residual", residual, {rows, columns});
  check::input(name, "gamma", gamma);
  check::shape(name, "gamma", gamma, {columns});
  check::optional_input(name, "beta", beta, {columns});
  check::optional_input(name, "bias", bias, {columns});
  check::output(name, "y", results.y);
  check::shape(name, "y", results.y, {rows, columns});
  check::optional_output(name, "sum", results.sum, {rows, columns});
  check::optional_output(name, "mean", results.mean, {rows});
  check::optional_output(name, "inverse_deviation", results.inverse_deviation, {rows});
  check::optional_output(name, "next", results.next, {rows, results.next.extent[1]});
  if (!results.next.is_absent()) {
    check::input(name, "next_bias", next_bias);
    check::same_extent(name, "next", results.next, 1, "next_bias", next_bias, 0);
  }
  if (!(options.epsilon >= 0)) {
    throw invalid_argument(fmt::format("{}: epsilon is {}; it must not be negative", name, options.epsilon));
  }
  operation op(ctx, name, dependencies);
  const bool neighbours =
      all_neighbours(x, residual, gamma, beta, bias, next_bias, results.y, results.sum, results.next);
  detail::launch_rows<T>(op, {rows, columns, neighbours}, [&]<int W, int Items>() {
    return kernels::layer_norm_residual<T, W, Items>{x,
                                                     residual,
                                                     results.y,
                                                     results.sum,
                                                     results.next,
                                                     gamma,
                                                     beta,
                                                     bias,
                                                     next_bias,
                                                     results.mean,
                                                     results.inverse_deviation,
                                                     static_cast<T>(options.epsilon),
                                                     0};
  });
  return op.submit();
}

template <class T>
sycl::event run_backward(context& ctx, const layer_norm_backward_operands<T>& operands,
                         const layer_norm_gradients<T>& gradients, const layer_norm_backward_options& options,
                         const events& dependencies) {
  constexpr const char* name = "layer_norm_backward";
  const std::int64_t rows = operands.sum.extent[0], columns = operands.sum.extent[1];
  check::device_type<T>(name, ctx);
  check::input(name, "sum", operands.sum);
  check::input(name, "gamma", operands.gamma);
  check::shape(name, "gamma", operands.gamma, {columns});
  check::input(name, "mean", operands.mean);
  check::shape(name, "mean", operands.mean, {rows});
  check::input(name, "inverse_deviation", operands.inverse_deviation);
  check::shape(name, "inverse_deviation", operands.inverse_deviation, {rows});
  check::input(name, "d_y", operands.d_y);
  check::shape(name, "d_y", operands.d_y, {rows, columns});
  check::optional_input(name, "d_residual", operands.d_residual, {rows, columns});
  check::output(name, "d_sum", gradients.d_sum);
  check::shape(name, "d_sum", gradients.d_sum, {rows, columns});
  check::optional_output(name, "d_gamma", gradients.d_gamma, {columns});
  check::optional_output(name, "d_beta", gradients.d_beta, {columns});
  check::optional_output(name, "d_bias", gradients.d_bias, {columns});
  operation op(ctx, name, dependencies);
  const std::int64_t per_group = detail::rows_per_partial(ctx, rows), groups = detail::ceil_div(rows, per_group);
  const bool has_sums =
      !(gradients.d_gamma.is_absent() && gradients.d_beta.is_absent() && gradients.d_bias.is_absent());
  kernels::column_partials<T> partial{nullptr, gradients.d_bias.is_absent() ? 2 : 3, columns};
  if (has_sums) partial.data = op.take<T>(groups * partial.parts * columns);
  const bool neighbours =
      all_neighbours(operands.sum, operands.gamma, operands.d_y, operands.d_residual, gradients.d_sum);
  detail::dispatch_rows<T>(detail::choose_row_shape(ctx.layout(), columns, neighbours), [&]<int W, int Items>() {
    detail::launch_groups<Items>(op, groups,
                                 kernels::layer_norm_backward<T, W, Items>{
                                     operands.sum, operands.d_y, operands.d_residual, operands.gamma, operands.mean,
                                     operands.inverse_deviation, gradients.d_sum, partial, per_group});
  });
  if (has_sums) {
    detail::add_partials<T>(
        op, {partial, groups, {gradients.d_gamma, gradients.d_beta, gradients.d_bias}, options.accumulate});
  }
  return op.submit();
}

}  // namespace

sycl::event layer_norm_residual(context& ctx, const layer_norm_residual_operands<float>& operands,
                                const layer_norm_residual_results<float>& results,
                                const layer_norm_residual_options& options, const events& dependencies) {
  return run_forward(ctx, operands, results, options, dependencies);
}
sycl::event layer_norm_residual(context& ctx, const layer_norm_residual_operands<double>& operands,
                                const layer_norm_residual_results<double>& results,
                                const layer_norm_residual_options& options, const events& dependencies) {
  return run_forward(ctx, operands, results, options, dependencies);
}

sycl::event layer_norm_backward(context& ctx, const layer_norm_backward_operands<float>& operands,
                                const layer_norm_gradients<float>& gradients,
                                const layer_norm_backward_options& options, const events& dependencies) {
  return run_backward(ctx, operands, gradients, options, dependencies);
}
sycl::event layer_norm_backward(context& ctx, const layer_norm_backward_operands<double>& operands,
                                const layer_norm_gradients<double>& gradients,
                                const layer_norm_backward_options& options, const events& dependencies) {
  return run_backward(ctx, operands, gradients, options, dependencies);
}

}  // namespace nullscope

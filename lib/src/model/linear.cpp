#include <nullscope/linalg/gemm.hpp>
#include <nullscope/linalg/rows.hpp>
#include <nullscope/model/layers.hpp>

#include "kernels/model/activation_backward.hpp"
#include "lib/src/core/checks.hpp"
#include "lib/src/core/strides.hpp"
#include "lib/src/linalg/row_launch.hpp"
#include "lib/src/model/activations.hpp"
#include "lib/src/model/column_sums.hpp"

namespace nullscope {
namespace {

template <class In>
sycl::event run_linear(context& ctx, const linear_operands<In>& operands, const linear_results<product_of<In>>& results,
                       const linear_options& options, const events& dependencies) {
  using T = product_of<In>;
  constexpr const char* name = "linear";
  const auto& [x, w, bias] = operands;
  const std::int64_t rows = x.extent[0], in = x.extent[1], out = w.extent[0];
  check::device_type<T>(name, ctx);
  check::input(name, "x", x);
  check::input(name, "w", w);
  check::shape(name, "w", w, {out, in});
  check::optional_input(name, "bias", bias, {out});
  check::output(name, "y", results.y);
  check::shape(name, "y", results.y, {rows, out});
  check::optional_output(name, "pre_activation", results.pre_activation, {rows, out});
  operation op(ctx, name, dependencies);
  gemm(ctx, {x, transposed(w)}, results.y, {.alpha = 1, .beta = options.accumulate ? 1.0 : 0.0});
  const bool has_more =
      !bias.is_absent() || options.function != activation::none || !results.pre_activation.is_absent();
  if (!has_more || results.y.empty()) return op.submit();
  const view<T, 3> y = results.y, pre = results.pre_activation;
  const bool neighbours =
      detail::has_neighbours(y) && (pre.is_absent() || detail::has_neighbours(pre)) && detail::has_neighbours(bias);
  detail::with_activation(options.function, [&]<kernels::activation_kind Kind>() {
    detail::launch_rows<T>(op, {rows, out, neighbours}, [&]<int W, int Items>() {
      return kernels::bias_activation<T, Kind, W, Items>{y, pre, bias, {}, 0};
    });
  });
  return op.submit();
}

template <class T>
sycl::event run_linear_backward(context& ctx, const linear_backward_operands<T>& operands,
                                const linear_gradients<T>& gradients, const linear_backward_options& options,
                                const events& dependencies) {
  constexpr const char* name = "linear_backward";
  const auto& [x, w, d_y] = operands;
  const std::int64_t rows = x.extent[0], in = x.extent[1], out = w.extent[0];
  check::device_type<T>(name, ctx);
  check::input(name, "x", x);
  check::input(name, "w", w);
  check::shape(name, "w", w, {out, in});
  check::input(name, "d_y", d_y);
  check::shape(name, "d_y", d_y, {rows, out});
  check::optional_output(name, "d_x", gradients.d_x, {rows, in});
  check::optional_output(name, "d_w", gradients.d_w, {out, in});
  check::optional_output(name, "d_bias", gradients.d_bias, {out});
  operation op(ctx, name, dependencies);
  if (!gradients.d_x.is_absent()) {
    gemm(ctx, {d_y, w}, gradients.d_x, {.alpha = 1, .beta = options.accumulate_x ? 1.0 : 0.0});
  }
  const double beta = options.accumulate ? 1 : 0;
  if (!gradients.d_w.is_absent()) gemm(ctx, {transposed(d_y), x}, gradients.d_w, {.alpha = 1, .beta = beta});
  if (!gradients.d_bias.is_absent()) {
    const std::int64_t per_group = detail::rows_per_partial(ctx, rows), groups = detail::ceil_div(rows, per_group);
    const auto partial = op.take_array<T>(groups, 1, out);
    const detail::row_shape shape = detail::choose_row_shape(ctx.layout(), out, detail::has_neighbours(d_y));
    detail::dispatch_rows<T>(shape, [&]<int W, int Items>() {
      detail::launch_groups<Items>(op, groups,
                                   kernels::sum_columns<T, W, Items>{d_y, {partial.data, 1, out}, per_group});
    });
    detail::add_partials<T>(op, {{partial.data, 1, out}, groups, {gradients.d_bias, {}, {}}, options.accumulate});
  }
  return op.submit();
}

template <class T>
sycl::event run_activation_backward(context& ctx, const activation_backward_operands<T>& operands,
                                    const activation_gradients<T>& gradients,
                                    const activation_backward_options& options, const events& dependencies) {
  constexpr const char* name = "activation_backward";
  const view<const T, 3> x = operands.x, d_y = operands.d_y;
  const view<T, 3> d_x = gradients.d_x;
  const std::int64_t rows = operands.x.extent[0], columns = operands.x.extent[1];
  check::device_type<T>(name, ctx);
  check::input(name, "x", operands.x);
  check::input(name, "d_y", operands.d_y);
  check::shape(name, "d_y", operands.d_y, {rows, columns});
  check::output(name, "d_x", gradients.d_x);
  check::shape(name, "d_x", gradients.d_x, {rows, columns});
  check::optional_output(name, "d_bias", gradients.d_bias, {columns});
  operation op(ctx, name, dependencies);
  const bool has_bias = !gradients.d_bias.is_absent();
  const std::int64_t per_group = detail::rows_per_partial(ctx, rows), groups = detail::ceil_div(rows, per_group);
  kernels::column_partials<T> partial{nullptr, 1, columns};
  if (has_bias) partial.data = op.take<T>(groups * columns);
  const bool neighbours = detail::has_neighbours(x) && detail::has_neighbours(d_y) && detail::has_neighbours(d_x);
  const detail::row_shape shape = detail::choose_row_shape(ctx.layout(), columns, neighbours);
  detail::with_activation(options.function, [&]<kernels::activation_kind Kind>() {
    detail::dispatch_rows<T>(shape, [&]<int W, int Items>() {
      detail::launch_groups<Items>(
          op, groups, kernels::activation_backward<T, Kind, W, Items>{x, d_y, d_x, partial, {}, per_group});
    });
  });
  if (has_bias) detail::add_partials<T>(op, {partial, groups, {gradients.d_bias, {}, {}}, options.accumulate});
  return op.submit();
}

}  // namespace

sycl::event linear(context& ctx, const linear_operands<float>& operands, const linear_results<float>& results,
                   const linear_options& options, const events& dependencies) {
  return run_linear(ctx, operands, results, options, dependencies);
}
sycl::event linear(context& ctx, const linear_operands<double>& operands, const linear_results<double>& results,
                   const linear_options& options, const events& dependencies) {
  return run_linear(ctx, operands, results, options, dependencies);
}
sycl::event linear(context& ctx, const linear_operands<bfloat16>& operands, const linear_results<float>& results,
                   const linear_options& options, const events& dependencies) {
  return run_linear(ctx, operands, results, options, dependencies);
}

sycl::event linear_backward(context& ctx, const linear_backward_operands<float>& operands,
                            const linear_gradients<float>& gradients, const linear_backward_options& options,
                            const events& dependencies) {
  return run_linear_backward(ctx, operands, gradients, options, dependencies);
}
sycl::event linear_backward(context& ctx, const linear_backward_operands<double>& operands,
                            const linear_gradients<double>& gradients, const linear_backward_options& options,
                            const events& dependencies) {
  return run_linear_backward(ctx, operands, gradients, options, dependencies);
}

sycl::event activation_backward(context& ctx, const activation_backward_operands<float>& operands,
                                const activation_gradients<float>& gradients,
                                const activation_backward_options& options, const events& dependencies) {
  return run_activation_backward(ctx, operands, gradients, options, dependencies);
}
sycl::event activation_backward(context& ctx, const activation_backward_operands<double>& operands,
                                const activation_gradients<double>& gradients,
                                const activation_backward_options& options, const events& dependencies) {
  return run_activation_backward(ctx, operands, gradients, options, dependencies);
}

}  // namespace nullscope

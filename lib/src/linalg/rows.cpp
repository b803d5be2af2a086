#include <nullscope/linalg/rows.hpp>

#include <algorithm>

#include "kernels/linalg/column_reduce.hpp"
#include "kernels/linalg/row_layer_norm.hpp"
#include "kernels/linalg/row_reduce.hpp"
#include "kernels/linalg/row_softmax.hpp"
#include "lib/src/core/checks.hpp"
#include "lib/src/core/ranges.hpp"
#include "lib/src/core/strides.hpp"
#include "lib/src/linalg/row_launch.hpp"

namespace nullscope {
namespace {

using detail::row_shape;

/// The matrices of an operation from rows to rows.
template <class T>
void check_matrices(std::string_view function, const context& ctx, const view<const T, 3>& x, const view<T, 3>& y) {
  check::device_type<T>(function, ctx);
  check::input(function, "x", x);
  check::output(function, "y", y);
  check::same_shape(function, "x", x, "y", y);
}

/// Launches the kernel over all rows of its x; sets how many rows a work-group takes.
template <int Items, class Kernel>
void launch_over_x(operation& op, const row_shape& shape, Kernel kernel, std::int64_t local_bytes = 0) {
  const std::int64_t rows = kernel.x.extent[0] * kernel.x.extent[1];
  const std::int64_t row_bytes = kernel.x.extent[2] * static_cast<std::int64_t>(sizeof(*kernel.x.data));
  kernel.rows_per_group = detail::rows_per_group(op.ctx(), shape, rows, row_bytes);
  detail::launch_groups<Items>(op, detail::ceil_div(rows, kernel.rows_per_group), kernel, step_order::next,
                               static_cast<std::size_t>(local_bytes));
}

template <class T>
sycl::event softmax_of(context& ctx, const view<const T, 3>& x, const softmax_results<T>& results,
                       const events& dependencies) {
  const view<T, 3>& y = results.y;
  check_matrices("softmax", ctx, x, y);
  check::optional_output("softmax", "log_sum_exp", results.log_sum_exp, {x.extent[0], x.extent[1]});
  operation op(ctx, "softmax", dependencies);
  const bool neighbours = detail::has_neighbours(x) && detail::has_neighbours(y);
  const std::int64_t columns = x.extent[2];
  // Exponentials that are kept in local memory should stay in the caches of a core.
  const std::int64_t most_kept_columns =
      std::min<std::int64_t>(4096, ctx.layout().local_bytes / static_cast<std::int64_t>(4 * sizeof(T)));
  const std::int64_t streamable = columns <= most_kept_columns ? detail::streamable_bytes(y, x) : 0;
  const row_shape shape = detail::choose_row_shape(ctx.layout(), columns, neighbours, streamable);
  detail::dispatch_streaming_rows<T>(shape, [&]<int W, int Items, bool Streams>() {
    const kernels::row_softmax<T, W, Items, Streams> kernel{x, y, results.log_sum_exp, 0};
    launch_over_x<Items>(op, shape, kernel, kernel.kept_bytes(columns));
  });
  return op.submit();
}

template <class T>
sycl::event layer_norm_of(context& ctx, const layer_norm_operands<T>& operands, const layer_norm_results<T>& results,
                          const layer_norm_options& options, const events& dependencies) {
  constexpr const char* name = "layer_norm";
  const view<const T, 3>& x = operands.x;
  const view<T, 3>& y = results.y;
  check_matrices(name, ctx, x, y);
  check::optional_input(name, "gamma", operands.gamma, {x.extent[2]});
  check::optional_input(name, "beta", operands.beta, {x.extent[2]});
  check::optional_output(name, "mean", results.mean, {x.extent[0], x.extent[1]});
  check::optional_output(name, "inverse_deviation", results.inverse_deviation, {x.extent[0], x.extent[1]});
  if (!(options.epsilon >= 0)) {
    throw invalid_argument(fmt::format("{}: epsilon is {}; it must not be negative", name, options.epsilon));
  }
  operation op(ctx, name, dependencies);
  const bool neighbours = detail::has_neighbours(x) && detail::has_neighbours(y) &&
                          detail::has_neighbours(operands.gamma) && detail::has_neighbours(operands.beta);
  const row_shape shape =
      detail::choose_row_shape(ctx.layout(), x.extent[2], neighbours, detail::streamable_bytes(y, x));
  detail::dispatch_streaming_rows<T>(shape, [&]<int W, int Items, bool Streams>() {
    launch_over_x<Items>(
        op, shape,
        kernels::row_layer_norm<T, W, Items, Streams>{x, y, operands.gamma, operands.beta, results.mean,
                                                      results.inverse_deviation, static_cast<T>(options.epsilon), 0});
  });
  return op.submit();
}

template <kernels::reduction Kind, class T>
void reduce_rows(operation& op, const view<const T, 3>& x, const view<T, 2>& out) {
  detail::launch_rows<T>(op, {x.extent[0] * x.extent[1], x.extent[2], detail::has_neighbours(x)},
                         [&]<int W, int Items>() {
                           return kernels::row_reduce<T, Kind, W, Items>{x, out, 0};
                         });
}

/// For x whose rows are neighbours in memory: goes down the columns of its transpose.
template <kernels::reduction Kind, class T>
void reduce_columns(operation& op, const view<const T, 3>& x, const view<T, 2>& out) {
  detail::dispatch_rows<T>(detail::choose_row_shape(op.ctx().layout(), x.extent[2], true), [&]<int W, int Items>() {
    using kernel_type = kernels::column_reduce<T, Kind, W, Items>;
    const std::int64_t groups = x.extent[0] * kernel_type::strips(x.extent[1]);
    op.launch(detail::groups_of(groups, Items), kernel_type::local_bytes, kernel_type{transposed(x), out});
  });
}

template <kernels::reduction Kind, class T>
void reduce(operation& op, const view<const T, 3>& x, const view<T, 2>& out) {
  if (!detail::has_neighbours(x) && x.stride[1] == 1) {
    reduce_columns<Kind>(op, x, out);
  } else {
    reduce_rows<Kind>(op, x, out);
  }
}

template <class T>
sycl::event row_reduce_of(context& ctx, const view<const T, 3>& x, const view<T, 2>& out, row_reduction reduction,
                          const events& dependencies) {
  constexpr const char* name = "row_reduce";
  check::device_type<T>(name, ctx);
  check::input(name, "x", x);
  check::output(name, "out", out);
  const bool has_rows = x.extent[0] > 0 && x.extent[1] > 0;
  if (has_rows || !out.is_absent()) check::shape(name, "out", out, {x.extent[0], x.extent[1]});
  operation op(ctx, name, dependencies);
  switch (reduction) {
    case row_reduction::sum: reduce<kernels::reduction::sum>(op, x, out); break;
    case row_reduction::maximum: reduce<kernels::reduction::maximum>(op, x, out); break;
    case row_reduction::sum_of_squares: reduce<kernels::reduction::sum_of_squares>(op, x, out); break;
    case row_reduction::norm: reduce_rows<kernels::reduction::norm>(op, x, out); break;
  }
  return op.submit();
}

}  // namespace

sycl::event softmax(context& ctx, view<const float, 3> x, const softmax_results<float>& results,
                    const events& dependencies) {
  return softmax_of(ctx, x, results, dependencies);
}
sycl::event softmax(context& ctx, view<const double, 3> x, const softmax_results<double>& results,
                    const events& dependencies) {
  return softmax_of(ctx, x, results, dependencies);
}

sycl::event layer_norm(context& ctx, const layer_norm_operands<float>& operands,
                       const layer_norm_results<float>& results, const layer_norm_options& options,
                       const events& dependencies) {
  return layer_norm_of(ctx, operands, results, options, dependencies);
}
sycl::event layer_norm(context& ctx, const layer_norm_operands<double>& operands,
                       const layer_norm_results<double>& results, const layer_norm_options& options,
                       const events& dependencies) {
  return layer_norm_of(ctx, operands, results, options, dependencies);
}

sycl::event row_reduce(context& ctx, view<const float, 3> x, view<float, 2> out, row_reduction reduction,
                       const events& dependencies) {
  return row_reduce_of(ctx, x, out, reduction, dependencies);
}
sycl::event row_reduce(context& ctx, view<const double, 3> x, view<double, 2> out, row_reduction reduction,
                       const events& dependencies) {
  return row_reduce_of(ctx, x, out, reduction, dependencies);
}

}  // namespace nullscope

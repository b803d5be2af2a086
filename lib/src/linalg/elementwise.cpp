#include <nullscope/linalg/rows.hpp>

#include <algorithm>
#include <type_traits>

#include "kernels/linalg/elementwise.hpp"
#include "lib/src/core/checks.hpp"
#include "lib/src/core/ranges.hpp"
#include "lib/src/core/strides.hpp"
#include "lib/src/linalg/row_launch.hpp"
#include "lib/src/linalg/transpose.hpp"

namespace nullscope {
namespace {

using detail::row_shape;

template <class From, class To>
void check_operand(std::string_view function, const context& ctx, std::string_view name, const view<const From, 3>& x,
                   const view<To, 3>& out) {
  check::device_type<From>(function, ctx);
  check::device_type<To>(function, ctx);
  check::input(function, name, x);
  check::output(function, "out", out);
  check::same_shape(function, name, x, "out", out);
}

/// Makes rows as long as possible: dimensions that continue one another in every operand become one. All operands are
/// (batch, rows, columns) of the same shape.
template <class... Views>
void merge_dimensions(Views&... operands) {
  const auto merge_all = [&](int outer) {
    if (!(can_merge(operands, outer) && ...)) return false;
    ((operands = merge(operands, outer)), ...);  // with an extent of 1 in front
    return true;
  };
  if (merge_all(1)) {
    merge_all(1);
  } else {
    merge_all(0);
  }
}

/// Launches a kernel over the tiles of its out; sets their shape.
template <int Items, class Kernel>
void launch_tiles(operation& op, const row_shape& shape, Kernel kernel) {
  constexpr std::int64_t most_columns = 16384;
  const std::int64_t rows = kernel.out.extent[0] * kernel.out.extent[1], columns = kernel.out.extent[2];
  kernel.shape.columns = std::clamp<std::int64_t>(columns, 1, most_columns);
  kernel.shape.rows = 1;
  if (columns <= most_columns) {
    kernel.shape.rows =
        detail::rows_per_group(op.ctx(), shape, rows, columns * static_cast<std::int64_t>(sizeof(float)));
  }
  const std::int64_t tiles =
      detail::ceil_div(columns, kernel.shape.columns) * detail::ceil_div(rows, kernel.shape.rows);
  detail::launch_groups<Items>(op, tiles, kernel);
}

template <class Function, class From, class To>
void map(operation& op, Function function, view<const From, 3> x, view<To, 3> out) {
  merge_dimensions(out, x);
  const bool neighbours = detail::has_neighbours(x) && detail::has_neighbours(out);
  const row_shape shape =
      detail::choose_row_shape(op.ctx().layout(), out.extent[2], neighbours, detail::streamable_bytes(out, x));
  using widest = std::conditional_t<sizeof(From) == 8 || sizeof(To) == 8, double, float>;
  detail::dispatch_streaming_rows<widest>(shape, [&]<int W, int Items, bool Streams>() {
    launch_tiles<Items>(op, shape, kernels::map_one<Function, From, To, W, Items, Streams>{x, out, function, {}});
  });
}

template <class Function, class T>
void map(operation& op, Function function, view<const T, 3> x, view<const T, 3> y, view<T, 3> out) {
  merge_dimensions(out, x, y);
  const bool neighbours = detail::has_neighbours(x) && detail::has_neighbours(y) && detail::has_neighbours(out);
  const row_shape shape =
      detail::choose_row_shape(op.ctx().layout(), out.extent[2], neighbours, detail::streamable_bytes(out, x, y));
  detail::dispatch_streaming_rows<T>(shape, [&]<int W, int Items, bool Streams>() {
    launch_tiles<Items>(op, shape, kernels::map_two<Function, T, W, Items, Streams>{x, y, out, function, {}});
  });
}

template <class T>
sycl::event scale_by(context& ctx, const view<const T, 3>& x, const view<T, 3>& out, T alpha,
                     const events& dependencies) {
  check_operand("scale", ctx, "x", x, out);
  operation op(ctx, "scale", dependencies);
  map(op, kernels::scale_by<T>{alpha}, x, out);
  return op.submit();
}

template <class T, class Function>
sycl::event combine(std::string_view name, context& ctx, Function function, const two_operands<T>& operands,
                    const view<T, 3>& out, const events& dependencies) {
  check_operand(name, ctx, "x", operands.x, out);
  check_operand(name, ctx, "y", operands.y, out);
  operation op(ctx, name, dependencies);
  map(op, function, operands.x, operands.y, out);
  return op.submit();
}

template <class T>
sycl::event weighted_sum(context& ctx, const two_operands<T>& operands, const view<T, 3>& out,
                         const axpby_options& options, const events& dependencies) {
  const kernels::weighted_sum<T> function{static_cast<T>(options.alpha), static_cast<T>(options.beta)};
  return combine("axpby", ctx, function, operands, out, dependencies);
}

template <class T>
sycl::event apply_function(context& ctx, const view<const T, 3>& x, const view<T, 3>& out, unary_function function,
                           const events& dependencies) {
  check_operand("apply", ctx, "x", x, out);
  operation op(ctx, "apply", dependencies);
  switch (function) {
    case unary_function::exp: map(op, kernels::apply_exp<T>{}, x, out); break;
    case unary_function::relu: map(op, kernels::apply_relu{}, x, out); break;
    case unary_function::gelu: map(op, kernels::apply_gelu<T>{}, x, out); break;
    case unary_function::gelu_tanh: map(op, kernels::apply_gelu_tanh<T>{}, x, out); break;
  }
  return op.submit();
}

/// out = x, both (batch, rows, columns) and checked.
template <class From, class To>
sycl::event copy_elements(std::string_view name, context& ctx, const view<const From, 3>& x, const view<To, 3>& out,
                          const events& dependencies) {
  operation op(ctx, name, dependencies);
  const bool is_matrix = x.extent[1] > 1 && x.extent[2] > 1;
  if constexpr (std::is_same_v<From, To>) {
    if (is_matrix && x.stride[1] == 1 && out.stride[2] == 1) {
      detail::transpose_dense(op, transposed(x), out);
      return op.submit();
    }
    if (is_matrix && x.stride[2] == 1 && out.stride[1] == 1) {
      detail::transpose_dense(op, x, transposed(out));
      return op.submit();
    }
  }
  map(op, kernels::identity{}, x, out);
  return op.submit();
}

template <class From, class To>
sycl::event copy_checked(context& ctx, const view<const From, 3>& x, const view<To, 3>& out,
                         const events& dependencies) {
  check_operand("copy", ctx, "x", x, out);
  return copy_elements("copy", ctx, x, out, dependencies);
}

template <class From, class To>
sycl::event transpose_checked(context& ctx, const view<const From, 3>& x, const view<To, 3>& out,
                              const events& dependencies) {
  constexpr const char* name = "transpose";
  check::device_type<From>(name, ctx);
  check::device_type<To>(name, ctx);
  check::input(name, "x", x);
  check::output(name, "out", out);
  check::shape(name, "out", out, {x.extent[0], x.extent[2], x.extent[1]});
  return copy_elements(name, ctx, transposed(x), out, dependencies);
}

}  // namespace

sycl::event scale(context& ctx, view<const float, 3> x, view<float, 3> out, float alpha, const events& dependencies) {
  return scale_by(ctx, x, out, alpha, dependencies);
}
sycl::event scale(context& ctx, view<const double, 3> x, view<double, 3> out, double alpha,
                  const events& dependencies) {
  return scale_by(ctx, x, out, alpha, dependencies);
}

sycl::event axpby(context& ctx, const two_operands<float>& operands, view<float, 3> out, const axpby_options& options,
                  const events& dependencies) {
  return weighted_sum(ctx, operands, out, options, dependencies);
}
sycl::event axpby(context& ctx, const two_operands<double>& operands, view<double, 3> out, const axpby_options& options,
                  const events& dependencies) {
  return weighted_sum(ctx, operands, out, options, dependencies);
}

sycl::event multiply(context& ctx, const two_operands<float>& operands, view<float, 3> out,
                     const events& dependencies) {
  return combine("multiply", ctx, kernels::product{}, operands, out, dependencies);
}
sycl::event multiply(context& ctx, const two_operands<double>& operands, view<double, 3> out,
                     const events& dependencies) {
  return combine("multiply", ctx, kernels::product{}, operands, out, dependencies);
}

sycl::event apply(context& ctx, view<const float, 3> x, view<float, 3> out, unary_function function,
                  const events& dependencies) {
  return apply_function(ctx, x, out, function, dependencies);
}
sycl::event apply(context& ctx, view<const double, 3> x, view<double, 3> out, unary_function function,
                  const events& dependencies) {
  return apply_function(ctx, x, out, function, dependencies);
}

sycl::event copy(context& ctx, view<const float, 3> x, view<float, 3> out, const events& dependencies) {
  return copy_checked(ctx, x, out, dependencies);
}
sycl::event copy(context& ctx, view<const float, 3> x, view<double, 3> out, const events& dependencies) {
  return copy_checked(ctx, x, out, dependencies);
}
sycl::event copy(context& ctx, view<const float, 3> x, view<bfloat16, 3> out, const events& dependencies) {
  return copy_checked(ctx, x, out, dependencies);
}
sycl::event copy(context& ctx, view<const double, 3> x, view<double, 3> out, const events& dependencies) {
  return copy_checked(ctx, x, out, dependencies);
}
sycl::event copy(context& ctx, view<const double, 3> x, view<float, 3> out, const events& dependencies) {
  return copy_checked(ctx, x, out, dependencies);
}
sycl::event copy(context& ctx, view<const bfloat16, 3> x, view<bfloat16, 3> out, const events& dependencies) {
  return copy_checked(ctx, x, out, dependencies);
}
sycl::event copy(context& ctx, view<const bfloat16, 3> x, view<float, 3> out, const events& dependencies) {
  return copy_checked(ctx, x, out, dependencies);
}

sycl::event transpose(context& ctx, view<const float, 3> x, view<float, 3> out, const events& dependencies) {
  return transpose_checked(ctx, x, out, dependencies);
}
sycl::event transpose(context& ctx, view<const float, 3> x, view<double, 3> out, const events& dependencies) {
  return transpose_checked(ctx, x, out, dependencies);
}
sycl::event transpose(context& ctx, view<const float, 3> x, view<bfloat16, 3> out, const events& dependencies) {
  return transpose_checked(ctx, x, out, dependencies);
}
sycl::event transpose(context& ctx, view<const double, 3> x, view<double, 3> out, const events& dependencies) {
  return transpose_checked(ctx, x, out, dependencies);
}
sycl::event transpose(context& ctx, view<const double, 3> x, view<float, 3> out, const events& dependencies) {
  return transpose_checked(ctx, x, out, dependencies);
}
sycl::event transpose(context& ctx, view<const bfloat16, 3> x, view<bfloat16, 3> out, const events& dependencies) {
  return transpose_checked(ctx, x, out, dependencies);
}
sycl::event transpose(context& ctx, view<const bfloat16, 3> x, view<float, 3> out, const events& dependencies) {
  return transpose_checked(ctx, x, out, dependencies);
}

}  // namespace nullscope

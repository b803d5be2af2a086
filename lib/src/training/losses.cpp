#include <nullscope/model/layers.hpp>

#include "kernels/model/dropout.hpp"
#include "kernels/training/cross_entropy.hpp"
#include "lib/src/core/checks.hpp"
#include "lib/src/core/strides.hpp"
#include "lib/src/linalg/row_launch.hpp"

namespace nullscope {
namespace {

template <class T>
sycl::event run_cross_entropy(context& ctx, const cross_entropy_operands<T>& operands,
                              const cross_entropy_results<T>& results, const events& dependencies) {
  constexpr const char* name = "cross_entropy";
  const auto& [logits, labels] = operands;
  const std::int64_t rows = logits.extent[0], classes = logits.extent[1];
  check::device_type<T>(name, ctx);
  check::input(name, "logits", logits);
  check::input(name, "labels", labels);
  check::shape(name, "labels", labels, {rows});
  if (classes == 0) check::fail(name, "logits", logits, "has no classes");
  check::optional_output(name, "loss", results.loss, {1});
  check::optional_output(name, "correct", results.correct, {1});
  check::optional_output(name, "row_loss", results.row_loss, {rows});
  check::optional_output(name, "d_logits", results.d_logits, {rows, classes});
  check::optional_output(name, "prediction", results.prediction, {rows});
  for (const auto& [operand, stride] :
       {std::pair("row_loss", results.row_loss.stride[0]), std::pair("prediction", results.prediction.stride[0])}) {
    if (rows > 1 && stride > 1) throw invalid_argument(fmt::format("{}: {} is not contiguous", name, operand));
  }
  operation op(ctx, name, dependencies);
  T* const log_sum_exp = op.take<T>(rows);
  T* const row_loss = results.row_loss.is_absent() ? op.take<T>(rows) : results.row_loss.data;
  std::int32_t* const prediction =
      results.prediction.is_absent() ? op.take<std::int32_t>(rows) : results.prediction.data;
  T* const share = op.take<T>(1);
  T* const loss = results.loss.is_absent() ? op.take<T>(1) : results.loss.data;
  detail::dispatch_rows<T>(detail::choose_row_shape(ctx.layout(), classes, false), [&]<int, int Items>() {
    detail::launch_groups<Items>(
        op, rows, kernels::cross_entropy_rows<T, Items>{logits, labels, log_sum_exp, row_loss, prediction});
    detail::launch_groups<Items>(
        op, 1, kernels::cross_entropy_mean<T, Items>{row_loss, prediction, labels, loss, share, results.correct.data});
    if (results.d_logits.is_absent()) return;
    detail::launch_groups<Items>(
        op, rows, kernels::cross_entropy_gradient<T, Items>{logits, labels, log_sum_exp, share, results.d_logits});
  });
  return op.submit();
}

template <class T>
sycl::event run_softmax_backward(context& ctx, const softmax_backward_operands<T>& operands, const view<T, 3>& d_x,
                                 const events& dependencies) {
  constexpr const char* name = "softmax_backward";
  const auto& [y, d_y] = operands;
  check::device_type<T>(name, ctx);
  check::input(name, "y", y);
  check::input(name, "d_y", d_y);
  check::same_shape(name, "d_y", d_y, "y", y);
  check::output(name, "d_x", d_x);
  check::same_shape(name, "d_x", d_x, "y", y);
  operation op(ctx, name, dependencies);
  const bool neighbours = detail::has_neighbours(y) && detail::has_neighbours(d_y) && detail::has_neighbours(d_x);
  detail::launch_rows<T>(op, {y.extent[0] * y.extent[1], y.extent[2], neighbours}, [&]<int W, int Items>() {
    return kernels::softmax_backward<T, W, Items>{y, d_y, d_x, 0};
  });
  return op.submit();
}

template <class T>
sycl::event run_dropout(context& ctx, const view<const T, 2>& x, const view<T, 2>& y, const dropout_options& options,
                        const events& dependencies) {
  constexpr const char* name = "dropout";
  const std::int64_t rows = x.extent[0], columns = x.extent[1];
  check::device_type<T>(name, ctx);
  check::input(name, "x", x);
  check::output(name, "y", y);
  check::shape(name, "y", y, {rows, columns});
  if (!(options.probability >= 0 && options.probability < 1)) {
    throw invalid_argument(
        fmt::format("{}: probability is {}; it must be from 0 to below 1", name, options.probability));
  }
  operation op(ctx, name, dependencies);
  const auto uniform = op.take_array<T>(rows, columns);
  fill_uniform(ctx, contiguous(uniform.data, uniform.size()), options.stream);
  const bool neighbours = detail::has_neighbours(x) && detail::has_neighbours(y);
  const T scale = static_cast<T>(1 / (1 - options.probability));
  detail::launch_rows<T>(op, {rows, columns, neighbours}, [&]<int W, int Items>() {
    return kernels::dropout<T, W, Items>{x, view<const T, 2>(uniform), y, static_cast<T>(options.probability), scale,
                                         0};
  });
  return op.submit();
}

}  // namespace

sycl::event cross_entropy(context& ctx, const cross_entropy_operands<float>& operands,
                          const cross_entropy_results<float>& results, const events& dependencies) {
  return run_cross_entropy(ctx, operands, results, dependencies);
}
sycl::event cross_entropy(context& ctx, const cross_entropy_operands<double>& operands,
                          const cross_entropy_results<double>& results, const events& dependencies) {
  return run_cross_entropy(ctx, operands, results, dependencies);
}

sycl::event softmax_backward(context& ctx, const softmax_backward_operands<float>& operands, view<float, 3> d_x,
                             const events& dependencies) {
  return run_softmax_backward(ctx, operands, d_x, dependencies);
}
sycl::event softmax_backward(context& ctx, const softmax_backward_operands<double>& operands, view<double, 3> d_x,
                             const events& dependencies) {
  return run_softmax_backward(ctx, operands, d_x, dependencies);
}

sycl::event dropout(context& ctx, view<const float, 2> x, view<float, 2> y, const dropout_options& options,
                    const events& dependencies) {
  return run_dropout(ctx, x, y, options, dependencies);
}
sycl::event dropout(context& ctx, view<const double, 2> x, view<double, 2> y, const dropout_options& options,
                    const events& dependencies) {
  return run_dropout(ctx, x, y, options, dependencies);
}

}  // namespace nullscope

#include <nullscope/training/training.hpp>

#include <cmath>

#include "kernels/training/adam.hpp"
#include "lib/src/core/checks.hpp"
#include "lib/src/core/fill.hpp"
#include "lib/src/core/ranges.hpp"
#include "lib/src/core/strides.hpp"
#include "lib/src/linalg/row_launch.hpp"
#include "lib/src/training/optimizer_state.hpp"

namespace nullscope {
namespace {

constexpr std::int64_t per_group = 16384;  // elements that a work-group takes

void check_options(std::string_view function, const adam_options& options) {
  const auto is_rate = [](double x) { return x >= 0 && x < 1; };
  if (!is_rate(options.beta1) || !is_rate(options.beta2) || !(options.epsilon >= 0) || options.step < 1 ||
      !std::isfinite(options.learning_rate) || !(options.weight_decay >= 0)) {
    throw invalid_argument(fmt::format(
        "{}: learning_rate {}, beta1 {}, beta2 {}, epsilon {}, weight_decay {}, step {} cannot be", function,
        options.learning_rate, options.beta1, options.beta2, options.epsilon, options.weight_decay, options.step));
  }
}

template <class T>
void check_flat(std::string_view function, std::string_view name, const view<T, 1>& x, std::int64_t count) {
  check::shape(function, name, x, {count});
  if (count > 1 && x.stride[0] != 1) check::fail(function, name, x, "is not contiguous");
}

template <class T>
sycl::event run_adam(context& ctx, const adam_operands<T>& operands, const adam_state<T>& state,
                     const adam_options& options, const events& dependencies) {
  constexpr const char* name = "adam";
  const std::int64_t count = operands.gradient.extent[0];
  check::device_type<T>(name, ctx);
  check::input(name, "gradient", operands.gradient);
  check_flat(name, "gradient", operands.gradient, count);
  check::optional_input(name, "gradient_scale", operands.gradient_scale, {1});
  for (const auto& [operand, x] : {std::pair("parameters", state.parameters), std::pair("first", state.first),
                                   std::pair("second", state.second)}) {
    check::output(name, operand, x);
    check_flat(name, operand, x, count);
  }
  check_options(name, options);
  operation op(ctx, name, dependencies);
  const double step = static_cast<double>(options.step);
  const double correction1 = 1 - std::pow(options.beta1, step), correction2 = 1 - std::pow(options.beta2, step);
  detail::dispatch_rows<T>(detail::choose_row_shape(ctx.layout(), per_group, true), [&]<int W, int Items>() {
    kernels::adam<T, W, Items> kernel{};
    kernel.gradient = operands.gradient.data;
    kernel.gradient_scale = operands.gradient_scale.data;
    kernel.parameters = state.parameters.data;
    kernel.first = state.first.data;
    kernel.second = state.second.data;
    kernel.count = count;
    kernel.per_group = per_group;
    kernel.rate = static_cast<T>(options.learning_rate / correction1);
    kernel.beta1 = static_cast<T>(options.beta1);
    kernel.beta2 = static_cast<T>(options.beta2);
    kernel.epsilon = static_cast<T>(options.epsilon);
    kernel.root_correction = static_cast<T>(1 / std::sqrt(correction2));
    kernel.coupled_decay = static_cast<T>(options.decoupled ? 0 : options.weight_decay);
    kernel.decoupled_decay = static_cast<T>(options.decoupled ? options.learning_rate * options.weight_decay : 0);
    detail::launch_groups<Items>(op, detail::ceil_div(count, per_group), kernel);
  });
  return op.submit();
}

template <class T>
sycl::event run_clip(context& ctx, const view<const T, 1>& gradient, const clip_results<T>& results,
                     double largest_norm, const events& dependencies) {
  constexpr const char* name = "clip_scale";
  check::device_type<T>(name, ctx);
  check::input(name, "gradient", gradient);
  check_flat(name, "gradient", gradient, gradient.extent[0]);
  check::output(name, "norm", results.norm);
  check::shape(name, "norm", results.norm, {1});
  check::output(name, "scale", results.scale);
  check::shape(name, "scale", results.scale, {1});
  if (!(largest_norm >= 0)) {
    throw invalid_argument(fmt::format("{}: largest_norm is {}; it must not be negative", name, largest_norm));
  }
  operation op(ctx, name, dependencies);
  const std::int64_t groups = detail::ceil_div(gradient.extent[0], per_group);
  T* const partial = op.take<T>(groups);
  detail::dispatch_rows<T>(detail::choose_row_shape(ctx.layout(), per_group, true), [&]<int W, int Items>() {
    detail::launch_groups<Items>(
        op, groups, kernels::squares_of_blocks<T, W, Items>{gradient.data, partial, gradient.extent[0], per_group});
  });
  op.launch(
      detail::groups_of(1, 1), 0,
      kernels::clip_scale<T>{partial, groups, results.norm.data, results.scale.data, static_cast<T>(largest_norm)});
  return op.submit();
}

}  // namespace

sycl::event adam(context& ctx, const adam_operands<float>& operands, const adam_state<float>& state,
                 const adam_options& options, const events& dependencies) {
  return run_adam(ctx, operands, state, options, dependencies);
}
sycl::event adam(context& ctx, const adam_operands<double>& operands, const adam_state<double>& state,
                 const adam_options& options, const events& dependencies) {
  return run_adam(ctx, operands, state, options, dependencies);
}

sycl::event clip_scale(context& ctx, view<const float, 1> gradient, const clip_results<float>& results,
                       double largest_norm, const events& dependencies) {
  return run_clip(ctx, gradient, results, largest_norm, dependencies);
}
sycl::event clip_scale(context& ctx, view<const double, 1> gradient, const clip_results<double>& results,
                       double largest_norm, const events& dependencies) {
  return run_clip(ctx, gradient, results, largest_norm, dependencies);
}

template <class T>
detail::optimizer_state<T>::optimizer_state(context& ctx, std::int64_t size)
    : gradient(ctx, {size}), first(zeros<T>(ctx, {size})), second(zeros<T>(ctx, {size})), clip(ctx, {2}) {}

template <class T>
void detail::optimizer_state<T>::update(context& ctx, const view<T, 1>& parameters, std::int64_t begin,
                                        const training_options& options, std::int64_t step) {
  const auto part = [&](tensor<T>& of) { return slice(view<T, 1>(of), 0, begin, parameters.extent[0]); };
  adam_operands<T> operands{part(gradient)};
  if (options.largest_norm > 0) {
    const view<T, 1> norm = slice(view<T, 1>(clip), 0, 0, 1), scale = slice(view<T, 1>(clip), 0, 1, 1);
    clip_scale(ctx, operands.gradient, {norm, scale}, options.largest_norm);
    operands.gradient_scale = scale;
  }
  adam(ctx, operands, {parameters, part(first), part(second)},
       {.learning_rate = learning_rate_at(options, step),
        .beta1 = options.beta1,
        .beta2 = options.beta2,
        .epsilon = options.epsilon,
        .weight_decay = options.weight_decay,
        .step = step});
}

template struct detail::optimizer_state<float>;
template struct detail::optimizer_state<double>;

}  // namespace nullscope

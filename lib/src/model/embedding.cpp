#include "kernels/model/embedding.hpp"

#include <nullscope/model/layers.hpp>

#include "lib/src/core/checks.hpp"
#include "lib/src/core/strides.hpp"
#include "lib/src/linalg/row_launch.hpp"

namespace nullscope {
namespace {

void check_first_position(std::string_view function, std::int64_t first) {
  if (first >= 0) return;
  throw invalid_argument(fmt::format("{}: first_position is {}; it must not be negative", function, first));
}

template <class T>
sycl::event run_forward(context& ctx, const embedding_operands<T>& operands, const view<T, 2>& x,
                        const embedding_options& options, const events& dependencies) {
  constexpr const char* name = "embedding";
  const auto& [ids, token, position, segment, segments] = operands;
  const std::int64_t batch = ids.extent[0], tokens = ids.extent[1], d = token.extent[1];
  check::device_type<T>(name, ctx);
  check::input(name, "ids", ids);
  check::input(name, "token", token);
  check::optional_input(name, "position", position, {position.extent[0], d});
  check::optional_input(name, "segment", segment, {segment.extent[0], d});
  check::optional_input(name, "segments", segments, {batch, tokens});
  check::output(name, "x", x);
  check::shape(name, "x", x, {batch * tokens, d});
  check_first_position(name, options.first_position);
  if (!position.is_absent() && position.extent[0] < options.first_position + tokens) {
    check::fail(name, "position", position,
                fmt::format("has too few rows for {} tokens from position {} on", tokens, options.first_position));
  }
  operation op(ctx, name, dependencies);
  const bool neighbours = detail::has_neighbours(token) && detail::has_neighbours(x) &&
                          detail::has_neighbours(position) && detail::has_neighbours(segment);
  detail::launch_rows<T>(op, {batch * tokens, d, neighbours}, [&]<int W, int Items>() {
    return kernels::embedding<T, W, Items>{ids, segments, token, position, segment, x, options.first_position, 0};
  });
  return op.submit();
}

template <class T>
sycl::event run_backward(context& ctx, const embedding_backward_operands<T>& operands,
                         const embedding_gradients<T>& gradients, const embedding_backward_options& options,
                         const events& dependencies) {
  constexpr const char* name = "embedding_backward";
  const auto& [ids, d_x, segments, lengths] = operands;
  const std::int64_t batch = ids.extent[0], tokens = ids.extent[1], d = d_x.extent[1];
  check::device_type<T>(name, ctx);
  check::input(name, "ids", ids);
  check::input(name, "d_x", d_x);
  check::shape(name, "d_x", d_x, {batch * tokens, d});
  check::optional_input(name, "segments", segments, {batch, tokens});
  check::optional_input(name, "lengths", lengths, {batch});
  if (lengths.extent[0] > 1 && lengths.stride[0] != 1) check::fail(name, "lengths", lengths, "is not contiguous");
  check::optional_output(name, "d_token", gradients.d_token, {gradients.d_token.extent[0], d});
  check::optional_output(name, "d_position", gradients.d_position, {gradients.d_position.extent[0], d});
  check::optional_output(name, "d_segment", gradients.d_segment, {gradients.d_segment.extent[0], d});
  check_first_position(name, options.first_position);
  if (!gradients.d_position.is_absent() && gradients.d_position.extent[0] < options.first_position + tokens) {
    check::fail(name, "d_position", gradients.d_position, fmt::format("has too few rows for {} tokens", tokens));
  }
  if (segments.is_absent() && !gradients.d_segment.is_absent()) {
    check::fail(name, "d_segment", gradients.d_segment, "needs segments");
  }
  operation op(ctx, name, dependencies);
  step_order order = step_order::next;
  const auto add = [&](const view<const std::int32_t, 2>& index, const view<T, 2>& table, std::int64_t first) {
    if (table.empty()) return;
    const detail::row_shape shape =
        detail::choose_row_shape(ctx.layout(), d, detail::has_neighbours(d_x) && detail::has_neighbours(table));
    // Enough work-groups to keep the device busy; each looks through all indices.
    const std::int64_t per_group = detail::ceil_div(table.extent[0], 16 * ctx.device().compute_units);
    detail::dispatch_rows<T>(shape, [&]<int W, int Items>() {
      detail::launch_groups<Items>(
          op, detail::ceil_div(table.extent[0], per_group),
          kernels::embedding_backward<T, W, Items>{index, lengths.data, d_x, table, batch, tokens, first, per_group,
                                                   options.accumulate},
          order);
    });
    order = step_order::beside;  // the tables have nothing to do with each other
  };
  add(ids, gradients.d_token, 0);
  add({}, gradients.d_position, options.first_position);
  if (!segments.is_absent()) add(segments, gradients.d_segment, 0);
  return op.submit();
}

}  // namespace

sycl::event embedding(context& ctx, const embedding_operands<float>& operands, view<float, 2> x,
                      const embedding_options& options, const events& dependencies) {
  return run_forward(ctx, operands, x, options, dependencies);
}
sycl::event embedding(context& ctx, const embedding_operands<double>& operands, view<double, 2> x,
                      const embedding_options& options, const events& dependencies) {
  return run_forward(ctx, operands, x, options, dependencies);
}

sycl::event embedding_backward(context& ctx, const embedding_backward_operands<float>& operands,
                               const embedding_gradients<float>& gradients, const embedding_backward_options& options,
                               const events& dependencies) {
  return run_backward(ctx, operands, gradients, options, dependencies);
}
sycl::event embedding_backward(context& ctx, const embedding_backward_operands<double>& operands,
                               const embedding_gradients<double>& gradients, const embedding_backward_options& options,
                               const events& dependencies) {
  return run_backward(ctx, operands, gradients, options, dependencies);
}

}  // namespace nullscope

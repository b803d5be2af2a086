#include "kernels/attribution/attention_tangent.hpp"

#include <algorithm>
#include <nullscope/attribution/jacobian.hpp>

#include "lib/src/attention/blocks.hpp"
#include "lib/src/attention/common.hpp"

namespace nullscope {
namespace {

constexpr const char* name = "attention_tangent";

template <class T>
using tangent_shapes = detail::attention_derivative_shapes<T, detail::attention_work_items>;

template <class T>
void check_tangent(std::string_view operand, const view<const T, 5>& tangent, const char* of,
                   const view<const T, 4>& x) {
  check::input(name, operand, tangent);
  for (int d = 0; d < 4; ++d) check::same_extent(name, operand, tangent, d + 1, of, x, d);
}

template <class T>
void validate(const context& ctx, const attention_tangent_operands<T>& operands, const view<T, 5>& d_out,
              const attention_options& options) {
  const auto& [q, k, v, out, log_sum_exp, dq, dk, dv, bias] = operands;
  check::device_type<T>(name, ctx);
  detail::check_queries_and_keys(name, q, k);
  detail::check_values(name, k, v);
  check::input(name, "out", out);
  check::shape(name, "out", out, {q.extent[0], q.extent[1], q.extent[2], v.extent[3]});
  detail::check_log_sum_exp(name, log_sum_exp, q);
  check_tangent<T>("dq", dq, "q", q);
  check_tangent<T>("dk", dk, "k", k);
  check_tangent<T>("dv", dv, "v", v);
  check::same_extent(name, "dk", dk, 0, "dq", dq, 0);
  check::same_extent(name, "dv", dv, 0, "dq", dq, 0);
  detail::check_bias(name, "bias", bias, {q.extent[0], q.extent[1], q.extent[2], k.extent[2]});
  check::output(name, "d_out", d_out);
  check::shape(name, "d_out", d_out, {dq.extent[0], q.extent[0], q.extent[1], q.extent[2], v.extent[3]});
  detail::check_lengths(name, options, q);
  detail::dispatch_shape<tangent_shapes<T>>(ctx.layout(), [&]<class Shape>() {
    detail::panels_of_block<kernels::attention_tangent<T, Shape>, Shape>(name, ctx);
  });
}

/// Copies x (tangents, batch, heads, rows, columns) into panels, as detail::take_panels does:
/// (batch, tangents, heads, panels, rows, PanelColumns).
template <class T, int W, int Items, int PanelColumns>
T* take_tangent_panels(operation& op, const view<const T, 5>& x, step_order order) {
  using kernel = kernels::to_panels<T, T, W, Items, PanelColumns>;
  const std::int64_t matrices = x.extent[0] * x.extent[2], panels = detail::ceil_div(x.extent[4], PanelColumns);
  const std::int64_t elements = matrices * panels * x.extent[3] * PanelColumns;
  T* to = op.take<T>(x.extent[1] * elements);
  const std::int64_t groups = matrices * panels * detail::ceil_div(x.extent[3], kernel::rows_per_group);
  for (std::int64_t b = 0; b < x.extent[1]; ++b) {
    op.launch(detail::groups_of(groups, Items), 0, kernel{select(x, 1, b), to + b * elements},
              b == 0 ? order : step_order::beside);
  }
  return to;
}

/// Tangents whose panels are in memory at the same time: what fits the caches, and enough to use weights several times.
template <class T>
std::int64_t tangents_at_once(const attention_tangent_operands<T>& operands) {
  constexpr std::int64_t least = 8, elements = 4 << 20;
  const auto& q = operands.q;
  const std::int64_t per_tangent =
      q.extent[0] * q.extent[1] *
      (q.extent[2] * q.extent[3] + operands.k.extent[2] * (q.extent[3] + operands.v.extent[3]));
  return std::max(least, elements / std::max<std::int64_t>(per_tangent, 1));
}

template <class Shape, class T>
void differentiate(operation& op, const attention_tangent_operands<T>& operands, const view<T, 5>& d_out,
                   const attention_options& options) {
  using kernel = kernels::attention_tangent<T, Shape>;
  const auto& [q, k, v, out, log_sum_exp, dq, dk, dv, bias] = operands;
  constexpr int wide = Shape::columns, narrow = Shape::rows;
  constexpr int narrow_width = Shape::width == 1 ? 1 : narrow % 4 == 0 ? 4 : 2;
  constexpr std::int64_t most_of_group = 16;
  const std::int64_t tangents = dq.extent[0], at_once = tangents_at_once(operands);
  const std::int64_t panels =
      std::min(detail::panels_of_block<kernel, Shape>(name, op.ctx()),
               detail::ceil_div(detail::ceil_div(q.extent[2], Shape::rows), Shape::workers) * Shape::workers);
  kernel work{.q_columns = detail::take_narrow_panels<Shape, T>(op, transposed(q), step_order::next),
              .dq_columns = nullptr,
              .k_columns = detail::take_wide_panels<Shape, T>(op, transposed(k)),
              .dk_columns = nullptr,
              .v_rows = detail::take_wide_panels<Shape, T>(op, v),
              .dv_rows = nullptr,
              .out_rows = detail::take_wide_panels<Shape, T>(op, out),
              .log_sum_exp = log_sum_exp,
              .bias = detail::score_bias_of(bias, detail::scale_of(options, q.extent[3])),
              .d_out = {},
              .visibility = detail::visibility_of(options, q.extent[2], k.extent[2]),
              .keys = k.extent[2],
              .dk = q.extent[3],
              .scale = static_cast<T>(detail::scale_of(options, q.extent[3])),
              .panels = panels,
              .tangents_per_group = 0};
  for (std::int64_t first = 0; first < tangents; first += at_once) {
    operation part(op.ctx(), name);  // its panels are free again for the next tangents
    const std::int64_t count = std::min(at_once, tangents - first);
    work.dq_columns = take_tangent_panels<T, narrow_width, Shape::lanes, narrow>(
        part, transposed(slice(dq, 0, first, count)), step_order::next);
    work.dk_columns = take_tangent_panels<T, Shape::width, Shape::lanes, wide>(
        part, transposed(slice(dk, 0, first, count)), step_order::beside);
    work.dv_rows =
        take_tangent_panels<T, Shape::width, Shape::lanes, wide>(part, slice(dv, 0, first, count), step_order::beside);
    work.d_out = slice(d_out, 0, first, count);
    const std::int64_t chunks = detail::ceil_div(count, most_of_group);
    work.tangents_per_group = detail::ceil_div(count, chunks);
    const std::int64_t blocks = detail::ceil_div(q.extent[2], panels * Shape::rows);
    const std::int64_t groups = q.extent[0] * q.extent[1] * blocks * detail::ceil_div(count, work.tangents_per_group);
    part.launch(detail::groups_of(groups, Shape::work_items), static_cast<std::size_t>(kernel::local_bytes(panels)),
                work);
    part.submit();
  }
}

template <class T>
sycl::event run(context& ctx, const attention_tangent_operands<T>& operands, const view<T, 5>& d_out,
                const attention_options& options, const events& dependencies) {
  validate(ctx, operands, d_out, options);
  operation op(ctx, name, dependencies);
  if (d_out.empty()) return op.submit();
  detail::dispatch_shape<tangent_shapes<T>>(ctx.layout(),
                                            [&]<class Shape>() { differentiate<Shape>(op, operands, d_out, options); });
  return op.submit();
}

}  // namespace

sycl::event attention_tangent(context& ctx, const attention_tangent_operands<float>& operands, view<float, 5> d_out,
                              const attention_options& options, const events& dependencies) {
  return run(ctx, operands, d_out, options, dependencies);
}
sycl::event attention_tangent(context& ctx, const attention_tangent_operands<double>& operands, view<double, 5> d_out,
                              const attention_options& options, const events& dependencies) {
  return run(ctx, operands, d_out, options, dependencies);
}

}  // namespace nullscope

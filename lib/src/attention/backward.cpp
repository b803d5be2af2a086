#include "kernels/attention/backward.hpp"

#include <algorithm>
#include <nullscope/attention_backward.hpp>
#include <nullscope/elementwise.hpp>

#include "kernels/attention/row_products.hpp"
#include "lib/src/attention/blocks.hpp"
#include "lib/src/attention/common.hpp"
#include "lib/src/core/strides.hpp"
#include "lib/src/core/team.hpp"

namespace nullscope {
namespace {

constexpr const char* name = "attention_backward";

template <class In, class T>
void validate(const context& ctx, const attention_backward_operands<In>& operands,
              const attention_gradients<T>& gradients, const attention_options& options) {
  const auto& [q, k, v, out, log_sum_exp, d_out, bias] = operands;
  check::device_type<T>(name, ctx);
  detail::check_queries_and_keys(name, q, k);
  detail::check_values(name, k, v);
  check::input(name, "out", out);
  check::shape(name, "out", out, {q.extent[0], q.extent[1], q.extent[2], v.extent[3]});
  detail::check_log_sum_exp(name, log_sum_exp, q);
  check::input(name, "d_out", d_out);
  check::same_shape(name, "out", out, "d_out", d_out);
  check::output(name, "d_q", gradients.d_q);
  check::output(name, "d_k", gradients.d_k);
  check::output(name, "d_v", gradients.d_v);
  check::same_shape(name, "q", q, "d_q", gradients.d_q);
  check::same_shape(name, "k", k, "d_k", gradients.d_k);
  check::same_shape(name, "v", v, "d_v", gradients.d_v);
  detail::check_bias(name, "bias", bias, {q.extent[0], q.extent[1], q.extent[2], k.extent[2]});
  detail::check_bias_gradient(name, bias, gradients.d_bias);
  detail::check_lengths(name, options, q);
  detail::with_derivative_shape<T>(ctx.layout(), [&]<class Shape>() {
    detail::panels_of_block<kernels::attention_backward<T, Shape>, Shape>(name, ctx);
  });
}

/// out (matrices * queries) = row sums of x * y
template <class T>
T* take_row_products(operation& op, const view<const T, 4>& x, const view<const T, 4>& y) {
  const std::int64_t rows = x.extent[0] * x.extent[1] * x.extent[2];
  T* out = op.take_array<T>(rows).data;
  const bool neighbours = detail::has_neighbours(x) && detail::has_neighbours(y);
  const detail::team_shape team = detail::choose_team(op.ctx().layout(), x.extent[3], neighbours);
  const std::int64_t rows_per_group =
      detail::rows_per_group(op.ctx(), team, rows, 2 * x.extent[3] * static_cast<std::int64_t>(sizeof(T)));
  detail::with_team<sizeof(T)>(team, [&]<int W, int Items>() {
    op.launch(detail::groups_of(detail::ceil_div(rows, rows_per_group), Items), kernels::team<Items>::local_bytes,
              kernels::attention_row_products<T, W, Items>{x, y, out, rows_per_group}, step_order::beside);
  });
  return out;
}

/// Chunks of queries and of keys: so many that all compute units have the same amount of work, with one group per chunk
/// and head.
std::int64_t chunks_for(const context& ctx, std::int64_t matrices, std::int64_t blocks) {
  const std::int64_t units = ctx.device().compute_units;
  std::int64_t chunks = 1;
  while (chunks < blocks && matrices * chunks % units != 0 && matrices * chunks < 4 * units) ++chunks;
  return chunks;
}

/// to (batch, heads, tokens, d) = factor * the part of gradient (batch, heads, padded tokens, padded d) without padding
template <class T>
void write_gradient(operation& op, T factor, const view<T, 4>& gradient, const view<T, 4>& to) {
  const view<const T, 4> from = slice(slice(gradient, 2, 0, to.extent[2]), 3, 0, to.extent[3]);
  detail::for_matrices(
      [&](const view<const T, 3>& padded, const view<T, 3>& result) { scale(op.ctx(), padded, result, factor); }, from,
      to);
}

template <class Shape, class In, class T>
void differentiate(operation& op, const attention_backward_operands<In>& operands,
                   const attention_gradients<T>& gradients, const attention_options& options) {
  using kernel = kernels::attention_backward<T, Shape>;
  const auto& [q, k, v, out, log_sum_exp, d_out, bias] = operands;
  const std::int64_t batch = q.extent[0], heads = q.extent[1], queries = q.extent[2], keys = k.extent[2];
  const std::int64_t dk = q.extent[3], dv = v.extent[3];
  const std::int64_t panels = detail::panels_of_block<kernel, Shape>(name, op.ctx());
  const T factor = static_cast<T>(detail::scale_of(options, dk));
  const auto take_gradient = [&](std::int64_t tokens, std::int64_t d) {
    return op.take_array<T>(batch, heads, kernel::padded_rows(tokens), kernel::padded_columns(d));
  };
  const view<T, 4> d_q = take_gradient(queries, dk), d_k = take_gradient(keys, dk), d_v = take_gradient(keys, dv);

  // An empty launch is no step: what stands beside it would stand beside the step before.
  const step_order keys_order = queries > 0 ? step_order::beside : step_order::next;
  kernel work{.q_columns = detail::take_narrow_panels<Shape, T>(op, transposed(q), step_order::next),
              .d_out_columns = detail::take_narrow_panels<Shape, T>(op, transposed(d_out)),
              .q_rows = detail::take_wide_panels<Shape, T>(op, q),
              .d_out_rows = detail::take_wide_panels<Shape, T>(op, d_out),
              .k_columns = detail::take_wide_panels<Shape, T>(op, transposed(k), keys_order),
              .v_columns = detail::take_wide_panels<Shape, T>(op, transposed(v)),
              .k_rows = detail::take_wide_panels<Shape, T>(op, k),
              .d_q = d_q.data,
              .d_k = d_k.data,
              .d_v = d_v.data,
              .log_sum_exp = log_sum_exp,
              .products = take_row_products<T>(op, out, d_out),
              .bias = detail::score_bias_of(bias, detail::scale_of(options, dk)),
              .d_bias = {},
              .visibility = detail::visibility_of(options, queries, keys),
              .keys = keys,
              .dk = dk,
              .dv = dv,
              .scale = factor,
              .panels = panels,
              .chunks = 1,
              .phase = 0};
  const std::int64_t blocks =
      std::min(detail::ceil_div(queries, panels * Shape::rows), detail::ceil_div(keys, std::int64_t{Shape::key_block}));
  work.chunks = chunks_for(op.ctx(), batch * heads, blocks);
  work.d_bias = detail::take_bias_sums(op, gradients.d_bias, work.chunks);
  for (; work.phase < work.chunks; ++work.phase) {
    op.launch(detail::groups_of(batch * heads * work.chunks, Shape::work_items),
              static_cast<std::size_t>(kernel::local_bytes(panels)), work);
  }
  write_gradient(op, factor, d_q, gradients.d_q);
  write_gradient(op, factor, d_k, gradients.d_k);
  write_gradient(op, T(1), d_v, gradients.d_v);
  detail::write_bias_gradient(op, work.d_bias, gradients.d_bias);
}

template <class In, class T>
sycl::event run(context& ctx, const attention_backward_operands<In>& operands, const attention_gradients<T>& gradients,
                const attention_options& options, const events& dependencies) {
  validate(ctx, operands, gradients, options);
  operation op(ctx, name, dependencies);
  detail::with_derivative_shape<T>(ctx.layout(),
                                   [&]<class Shape>() { differentiate<Shape>(op, operands, gradients, options); });
  return op.submit();
}

}  // namespace

sycl::event attention_backward(context& ctx, const attention_backward_operands<float>& operands,
                               const attention_gradients<float>& gradients, const attention_options& options,
                               const events& dependencies) {
  return run(ctx, operands, gradients, options, dependencies);
}
sycl::event attention_backward(context& ctx, const attention_backward_operands<double>& operands,
                               const attention_gradients<double>& gradients, const attention_options& options,
                               const events& dependencies) {
  return run(ctx, operands, gradients, options, dependencies);
}
sycl::event attention_backward(context& ctx, const attention_backward_operands<bfloat16>& operands,
                               const attention_gradients<float>& gradients, const attention_options& options,
                               const events& dependencies) {
  return run(ctx, operands, gradients, options, dependencies);
}

}  // namespace nullscope

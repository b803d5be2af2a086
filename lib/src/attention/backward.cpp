#include "kernels/attention/backward.hpp"

#include <algorithm>
#include <nullscope/attention/attention.hpp>

#include "kernels/attention/backward_operands.hpp"
#include "lib/src/attention/blocks.hpp"
#include "lib/src/attention/common.hpp"
#include "lib/src/linalg/row_launch.hpp"

namespace nullscope {
namespace {

constexpr const char* attention_backward_name = "attention_backward";

template <class T>
using backward_shapes = detail::attention_derivative_shapes<T, detail::attention_gradient_work_items<T>>;

template <class In, class T>
void validate(const context& ctx, const attention_backward_operands<In>& operands,
              const attention_gradients<T>& gradients, const attention_options& options) {
  const auto& [q, k, v, out, log_sum_exp, d_out, bias] = operands;
  check::device_type<T>(attention_backward_name, ctx);
  detail::check_queries_and_keys(attention_backward_name, q, k);
  detail::check_values(attention_backward_name, k, v);
  check::input(attention_backward_name, "out", out);
  check::shape(attention_backward_name, "out", out, {q.extent[0], q.extent[1], q.extent[2], v.extent[3]});
  detail::check_log_sum_exp(attention_backward_name, log_sum_exp, q);
  check::input(attention_backward_name, "d_out", d_out);
  check::same_shape(attention_backward_name, "out", out, "d_out", d_out);
  check::output(attention_backward_name, "d_q", gradients.d_q);
  check::output(attention_backward_name, "d_k", gradients.d_k);
  check::output(attention_backward_name, "d_v", gradients.d_v);
  check::same_shape(attention_backward_name, "q", q, "d_q", gradients.d_q);
  check::same_shape(attention_backward_name, "k", k, "d_k", gradients.d_k);
  check::same_shape(attention_backward_name, "v", v, "d_v", gradients.d_v);
  detail::check_bias(attention_backward_name, "bias", bias, {q.extent[0], q.extent[1], q.extent[2], k.extent[2]});
  detail::check_bias_gradient(attention_backward_name, bias, gradients.d_bias);
  detail::check_lengths(attention_backward_name, options, q);
  detail::dispatch_shape<backward_shapes<T>>(ctx.layout(), [&]<class Shape>() {
    detail::panels_of_block<kernels::attention_backward<T, Shape>, Shape>(attention_backward_name, ctx);
  });
}

/// Chunks of queries and of keys: so many that all compute units have the same amount of work, with one group per chunk
/// and head.
std::int64_t chunks_for(const context& ctx, std::int64_t matrices, std::int64_t blocks) {
  const std::int64_t units = ctx.device().compute_units;
  std::int64_t chunks = 1;
  while (chunks < blocks && matrices * chunks % units != 0 && matrices * chunks < 4 * units) ++chunks;
  return chunks;
}

/// Panels of x (batch, heads, rows, columns), still to be filled.
template <class Panels, class In>
Panels take_panels(operation& op, const view<const In, 4>& x) {
  Panels result{x, nullptr};
  result.panels = op.take_array<typename Panels::number>(x.extent[0] * x.extent[1], result.panels_of_matrix(),
                                                         x.extent[2], Panels::panel_columns)
                      .data;
  return result;
}

/// Everything that the kernel reads, in one launch.
template <class Shape, class In, class T>
kernels::attention_backward_operands<In, T, Shape> take_operands(operation& op,
                                                                 const attention_backward_operands<In>& operands) {
  using kernel = kernels::attention_backward_operands<In, T, Shape>;
  const auto& [q, k, v, out, log_sum_exp, d_out, bias] = operands;
  const std::int64_t matrices = q.extent[0] * q.extent[1];
  kernel work{.q_columns = take_panels<typename kernel::template narrow<In>>(op, transposed(q)),
              .d_out_columns = take_panels<typename kernel::template narrow<T>>(op, transposed(d_out)),
              .q_rows = take_panels<typename kernel::template wide<In>>(op, q),
              .d_out_rows = take_panels<typename kernel::template wide<T>>(op, d_out),
              .k_columns = take_panels<typename kernel::template wide<In>>(op, transposed(k)),
              .v_columns = take_panels<typename kernel::template wide<In>>(op, transposed(v)),
              .k_rows = take_panels<typename kernel::template wide<In>>(op, k),
              .out = out,
              .products = op.take_array<T>(matrices, q.extent[2]).data,
              .matrices = matrices,
              .blocks_per_group = 1};
  const std::int64_t blocks = matrices * work.blocks_of_matrix();
  if constexpr (kernel::one_work_item) {
    constexpr std::int64_t groups_of_unit = 32;
    work.blocks_per_group =
        std::max<std::int64_t>(1, blocks / (groups_of_unit * std::int64_t{op.ctx().device().compute_units}));
  }
  detail::launch_groups<Shape::lanes>(op, detail::ceil_div(blocks, work.blocks_per_group), work);
  return work;
}

template <class Shape, class In, class T>
void differentiate(operation& op, const attention_backward_operands<In>& operands,
                   const attention_gradients<T>& gradients, const attention_options& options) {
  using kernel = kernels::attention_backward<T, Shape>;
  const auto& [q, k, v, out, log_sum_exp, d_out, bias] = operands;
  const std::int64_t batch = q.extent[0], heads = q.extent[1], queries = q.extent[2], keys = k.extent[2];
  const std::int64_t dk = q.extent[3], dv = v.extent[3];
  const std::int64_t panels = detail::panels_of_block<kernel, Shape>(attention_backward_name, op.ctx());
  const T factor = static_cast<T>(detail::scale_of(options, dk));
  const auto take_gradient = [&](std::int64_t tokens, std::int64_t d) {
    return op.take_array<T>(batch, heads, kernel::padded_rows(tokens), kernel::padded_columns(d));
  };
  const view<T, 4> d_q = take_gradient(queries, dk), d_k = take_gradient(keys, dk), d_v = take_gradient(keys, dv);

  const auto read = take_operands<Shape, In, T>(op, operands);
  kernel work{.q_columns = read.q_columns.panels,
              .d_out_columns = read.d_out_columns.panels,
              .q_rows = read.q_rows.panels,
              .d_out_rows = read.d_out_rows.panels,
              .k_columns = read.k_columns.panels,
              .v_columns = read.v_columns.panels,
              .k_rows = read.k_rows.panels,
              .d_q = d_q.data,
              .d_k = d_k.data,
              .d_v = d_v.data,
              .to_q = gradients.d_q,
              .to_k = gradients.d_k,
              .to_v = gradients.d_v,
              .log_sum_exp = log_sum_exp,
              .products = read.products,
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
  detail::write_bias_gradient(op, work.d_bias, gradients.d_bias);
}

template <class In, class T>
sycl::event run(context& ctx, const attention_backward_operands<In>& operands, const attention_gradients<T>& gradients,
                const attention_options& options, const events& dependencies) {
  validate(ctx, operands, gradients, options);
  operation op(ctx, attention_backward_name, dependencies);
  detail::dispatch_shape<backward_shapes<T>>(
      ctx.layout(), [&]<class Shape>() { differentiate<Shape>(op, operands, gradients, options); });
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

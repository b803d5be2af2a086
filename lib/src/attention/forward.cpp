#include "kernels/attention/forward.hpp"

#include <algorithm>
#include <nullscope/attention/attention.hpp>
#include <type_traits>

#include "lib/src/attention/common.hpp"
#include "lib/src/attention/forward_vectors.hpp"
#include "lib/src/attention/tiles.hpp"

namespace nullscope {
namespace {

constexpr const char* attention_name = "attention";

template <class In>
bool takes_tiles(const context& ctx, const attention_operands<In>& operands) {
  return std::is_same_v<In, bfloat16> && operands.bias.is_absent() &&
         detail::attention_tiles_serve(ctx, operands.k.extent[3], operands.v.extent[3]);
}

template <class In, class T>
void validate(const context& ctx, const attention_operands<In>& operands, const attention_results<T>& results,
              const attention_options& options) {
  const auto& [q, k, v, bias] = operands;
  check::device_type<T>(attention_name, ctx);
  detail::check_queries_and_keys(attention_name, q, k);
  detail::check_values(attention_name, k, v);
  check::output(attention_name, "out", results.out);
  check::shape(attention_name, "out", results.out, {q.extent[0], q.extent[1], q.extent[2], v.extent[3]});
  check::optional_output(attention_name, "log_sum_exp", results.log_sum_exp, {q.extent[0], q.extent[1], q.extent[2]});
  check::optional_output(attention_name, "sum_of_squares", results.sum_of_squares,
                         {q.extent[0], q.extent[1], q.extent[2]});
  detail::check_bias(attention_name, "bias", bias, {q.extent[0], q.extent[1], q.extent[2], k.extent[2]});
  detail::check_lengths(attention_name, options, q);
  if (!takes_tiles(ctx, operands)) detail::check_local_memory<T>(attention_name, ctx, q.extent[3], v.extent[3]);
}

/// Panels of queries per work-group: what local memory holds, as long as every compute unit has work.
template <class Shape, class T>
std::int64_t panels_of_group(const context& ctx, const view<T, 4>& out, std::int64_t dk) {
  const std::int64_t dv = out.extent[3], panels = detail::ceil_div(out.extent[2], Shape::rows);
  const auto fits = [&](std::int64_t count) {
    return kernels::attention_local<T, Shape>::bytes(count, dk, dv) <= ctx.layout().local_bytes;
  };
  std::int64_t count = Shape::workers;
  constexpr std::int64_t most = 8;  // more would not make better use of the keys in cache
  const std::int64_t heads = out.extent[0] * out.extent[1];
  while (count + Shape::workers <= most && fits(count + Shape::workers) &&
         heads * detail::ceil_div(panels, count + Shape::workers) >= 4 * ctx.device().compute_units) {
    count += Shape::workers;
  }
  return count;
}

template <class Shape, class In, class T>
void attend(operation& op, const attention_operands<In>& operands, const attention_results<T>& results,
            const attention_options& options) {
  const auto& [q, k, v, bias] = operands;
  const std::int64_t panels = panels_of_group<Shape>(op.ctx(), results.out, q.extent[3]);
  const std::int64_t query_blocks = detail::ceil_div(q.extent[2], panels * Shape::rows);
  const T* key_panels = detail::take_wide_panels<Shape, T>(op, transposed(k), step_order::next);
  const T* value_panels = detail::take_wide_panels<Shape, T>(op, v);
  const kernels::attention_forward<In, T, Shape> kernel{
      .q = q,
      .key_panels = key_panels,
      .value_panels = value_panels,
      .out = results.out,
      .log_sum_exp = results.log_sum_exp,
      .sum_of_squares = results.sum_of_squares,
      .bias = detail::score_bias_of(bias, std::abs(detail::scale_of(options, q.extent[3]))),
      .visibility = detail::visibility_of(options, q.extent[2], k.extent[2]),
      .keys = k.extent[2],
      .scale = detail::score_scale_of<T>(options, q.extent[3]),
      .panels = panels,
      .query_blocks = query_blocks};
  const std::int64_t bytes = kernels::attention_local<T, Shape>::bytes(panels, q.extent[3], v.extent[3]);
  op.launch(detail::groups_of(q.extent[0] * q.extent[1] * query_blocks, Shape::work_items),
            static_cast<std::size_t>(bytes), kernel);
}

template <class In, class T>
sycl::event run(context& ctx, const attention_operands<In>& operands, const attention_results<T>& results,
                const attention_options& options, const events& dependencies) {
  validate(ctx, operands, results, options);
  operation op(ctx, attention_name, dependencies);
  if (results.out.empty()) return op.submit();
  if constexpr (std::is_same_v<In, bfloat16>) {
    if (takes_tiles(ctx, operands)) {
      detail::attention_tiles(op, operands, results, options);
      return op.submit();
    }
  }
  const std::int64_t dk = operands.q.extent[3], dv = operands.v.extent[3];
  detail::dispatch_forward<T>(ctx, dk, dv, [&]<class Shape>() {
    if constexpr (Shape::width > 1) {
      detail::attend_with_vectors<Shape>(op, operands, results, options);
    } else {
      attend<Shape>(op, operands, results, options);
    }
  });
  return op.submit();
}

}  // namespace

sycl::event attention(context& ctx, const attention_operands<float>& operands, const attention_results<float>& results,
                      const attention_options& options, const events& dependencies) {
  return run(ctx, operands, results, options, dependencies);
}
sycl::event attention(context& ctx, const attention_operands<double>& operands,
                      const attention_results<double>& results, const attention_options& options,
                      const events& dependencies) {
  return run(ctx, operands, results, options, dependencies);
}
sycl::event attention(context& ctx, const attention_operands<bfloat16>& operands,
                      const attention_results<float>& results, const attention_options& options,
                      const events& dependencies) {
  return run(ctx, operands, results, options, dependencies);
}

}  // namespace nullscope

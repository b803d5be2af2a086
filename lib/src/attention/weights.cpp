#include <nullscope/attention/attention.hpp>
#include <nullscope/linalg/gemm.hpp>

#include "kernels/attention/exponentials.hpp"
#include "kernels/attention/received.hpp"
#include "lib/src/attention/common.hpp"
#include "lib/src/core/strides.hpp"
#include "lib/src/linalg/row_launch.hpp"

namespace nullscope {
namespace {

template <class T>
void validate_weights(const context& ctx, const attention_scores<T>& scores, const view<T, 4>& out,
                      const attention_tile_options& options) {
  constexpr const char* name = "attention_weights";
  const auto& [q, k, log_sum_exp, bias] = scores;
  check::device_type<T>(name, ctx);
  detail::check_queries_and_keys(name, q, k);
  detail::check_log_sum_exp(name, log_sum_exp, q);
  detail::check_bias(name, "bias", bias, {q.extent[0], q.extent[1], q.extent[2], k.extent[2]});
  check::output(name, "out", out);
  for (int d : {0, 1}) check::same_extent(name, "q", q, d, "out", out, d);
  detail::check_tile(name, out, options.first_query, options.first_key, q.extent[2], k.extent[2]);
  detail::check_lengths(name, options.attention, q);
}

template <class T>
sycl::event run_weights(context& ctx, const attention_scores<T>& scores, const view<T, 4>& out,
                        const attention_tile_options& options, const events& dependencies) {
  validate_weights(ctx, scores, out, options);
  operation op(ctx, "attention_weights", dependencies);
  if (out.empty()) return op.submit();
  const auto& [q, k, log_sum_exp, bias] = scores;
  // scores (rows, columns) = scale q (rows, dk) k^T (dk, columns), into out
  const double scale = detail::scale_of(options.attention, q.extent[3]);
  detail::for_matrices(
      [&](const view<const T, 3>& queries, const view<const T, 3>& keys, const view<T, 3>& to) {
        gemm(ctx, {queries, transposed(keys)}, to, {.alpha = scale});
      },
      slice(q, 2, options.first_query, out.extent[2]), slice(k, 2, options.first_key, out.extent[3]), out);
  const std::int64_t rows = out.extent[0] * out.extent[1] * out.extent[2];
  const auto visibility = detail::visibility_of(options.attention, q.extent[2], k.extent[2]);
  detail::launch_rows<T>(op, {rows, out.extent[3], detail::has_neighbours(out)}, [&]<int W, int Items>() {
    return kernels::attention_exponentials<T, W, Items>{.x = out,
                                                        .log_sum_exp = scores.log_sum_exp,
                                                        .bias = detail::score_bias_of(scores.bias, 1),
                                                        .visibility = visibility,
                                                        .keys = scores.k.extent[2],
                                                        .first_query = options.first_query,
                                                        .first_key = options.first_key,
                                                        .rows_per_group = 0};
  });
  return op.submit();
}

template <class Shape, class In, class T>
void receive(operation& op, const attention_scores<In>& scores, const view<T, 3>& received,
             const attention_options& options) {
  const auto& [q, k, log_sum_exp, bias] = scores;
  const T* key_panels = detail::take_wide_panels<Shape, T>(op, transposed(k), step_order::next);
  const T* query_panels = detail::take_narrow_panels<Shape, T>(op, transposed(q));
  const kernels::attention_received<T, Shape> kernel{
      .query_panels = query_panels,
      .key_panels = key_panels,
      .log_sum_exp = log_sum_exp,
      .received = received,
      .bias = detail::score_bias_of(bias, detail::scale_of(options, q.extent[3])),
      .visibility = detail::visibility_of(options, q.extent[2], k.extent[2]),
      .dk = q.extent[3],
      .scale = static_cast<T>(detail::scale_of(options, q.extent[3]))};
  const std::int64_t panels =
      received.extent[0] * received.extent[1] * detail::ceil_div(received.extent[2], Shape::columns);
  op.launch(detail::groups_of(detail::ceil_div(panels, Shape::workers), Shape::work_items), 0, kernel);
}

template <class In, class T>
sycl::event run_received(context& ctx, const attention_scores<In>& scores, const view<T, 3>& received,
                         const attention_options& options, const events& dependencies) {
  constexpr const char* name = "attention_received";
  const auto& [q, k, log_sum_exp, bias] = scores;
  check::device_type<T>(name, ctx);
  detail::check_queries_and_keys(name, q, k);
  detail::check_log_sum_exp(name, log_sum_exp, q);
  detail::check_bias(name, "bias", bias, {q.extent[0], q.extent[1], q.extent[2], k.extent[2]});
  check::output(name, "received", received);
  for (int d : {0, 1, 2}) check::same_extent(name, "k", k, d, "received", received, d);
  detail::check_lengths(name, options, q);
  operation op(ctx, name, dependencies);
  if (received.empty()) return op.submit();
  detail::dispatch_shape<detail::attention_received_shapes<T>>(
      ctx.layout(), [&]<class Shape>() { receive<Shape>(op, scores, received, options); });
  return op.submit();
}

}  // namespace

sycl::event attention_weights(context& ctx, const attention_scores<float>& scores, view<float, 4> out,
                              const attention_tile_options& options, const events& dependencies) {
  return run_weights(ctx, scores, out, options, dependencies);
}
sycl::event attention_weights(context& ctx, const attention_scores<double>& scores, view<double, 4> out,
                              const attention_tile_options& options, const events& dependencies) {
  return run_weights(ctx, scores, out, options, dependencies);
}

sycl::event attention_received(context& ctx, const attention_scores<float>& scores, view<float, 3> received,
                               const attention_options& options, const events& dependencies) {
  return run_received(ctx, scores, received, options, dependencies);
}
sycl::event attention_received(context& ctx, const attention_scores<double>& scores, view<double, 3> received,
                               const attention_options& options, const events& dependencies) {
  return run_received(ctx, scores, received, options, dependencies);
}
sycl::event attention_received(context& ctx, const attention_scores<bfloat16>& scores, view<float, 3> received,
                               const attention_options& options, const events& dependencies) {
  return run_received(ctx, scores, received, options, dependencies);
}

}  // namespace nullscope

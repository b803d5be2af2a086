#include <nullscope/attention/effective_attention.hpp>

#include <algorithm>
#include <nullscope/attention/attention.hpp>
#include <nullscope/core/operation.hpp>
#include <nullscope/linalg/gemm.hpp>
#include <nullscope/null_space/null_space.hpp>

#include "kernels/attention/above_diagonal.hpp"
#include "kernels/attention/effective_summary.hpp"
#include "kernels/linalg/block_sums.hpp"
#include "lib/src/attention/common.hpp"
#include "lib/src/attention/effective_attention_checks.hpp"
#include "lib/src/core/checks.hpp"
#include "lib/src/core/ranges.hpp"
#include "lib/src/core/strides.hpp"
#include "lib/src/linalg/row_launch.hpp"
#include "lib/src/null_space/tolerance.hpp"

namespace nullscope {
namespace {

/// Sums and squares of the columns of x (heads, rows, columns), block by block: (heads, blocks, 2, columns).
template <class T>
view<T, 4> add_blocks(operation& op, const view<const T, 3>& x, step_order order) {
  const std::int64_t blocks = kernels::block_sums<T, 1, 1>::blocks(x.extent[1]);  // the same for every layout
  const auto sums = op.take_array<T>(x.extent[0], blocks, 2, x.extent[2]);
  const detail::row_shape shape = detail::choose_row_shape(op.ctx().layout(), x.extent[2], detail::has_neighbours(x));
  detail::dispatch_rows<T>(shape, [&]<int W, int Items>() {
    detail::launch_groups<Items>(op, x.extent[0] * blocks, kernels::block_sums<T, W, Items>{x, sums}, order);
  });
  return sums;
}

/// The summary of each head, and 1^T P (heads, c), which is returned. Sums are taken in Sum.
template <class T, class Sum>
view<T, 2> summarise(operation& op, const effective_attention_results<T>& results, const view<T, 2>& row_squares,
                     bool causal) {
  static_assert(sizeof(effective_attention_summary<T>) == 4 * sizeof(T), "the kernel sees four numbers per head");
  const view<const T, 3> p = results.p, u = results.u;
  const std::int64_t heads = p.extent[0], queries = p.extent[1], keys = u.extent[1];
  // u first: there are keys, so it is launched even if there are no queries.
  const view<T, 4> u_sums = add_blocks<T>(op, u, step_order::next), p_sums = add_blocks<T>(op, p, step_order::beside),
                   square_sums = add_blocks<T>(op, add_dimension(row_squares, 2), step_order::beside);
  const auto p_columns = op.take_array<T>(heads, p.extent[2]);
  const view<T, 2> summary{reinterpret_cast<T*>(results.summary.data), {heads, 4}, {4 * results.summary.stride[0], 1}};
  constexpr int items = 32;
  const kernels::effective_summary<T, Sum, items> kernel{
      p_sums,  u_sums,       square_sums, p_columns,
      summary, results.rank, queries,     causal ? std::min(queries, keys) : queries,
      keys};
  detail::launch_groups<items>(op, heads, kernel);
  return p_columns;
}

template <class T>
sycl::event split(context& ctx, const attention_heads<T>& heads, const effective_attention_results<T>& results,
                  const effective_attention_options& options, const events& dependencies) {
  detail::check_effective_operands(detail::effective_attention_name, ctx, heads);
  detail::check_effective_results(detail::effective_attention_name, heads, results);
  detail::check_tolerance(detail::effective_attention_name, options.tolerance);
  const attention_options with{.scale = options.scale, .causal = options.causal};
  operation op(ctx, detail::effective_attention_name, dependencies);
  if (heads.q.extent[0] == 0) return op.submit();
  const auto row_squares = op.take_array<T>(heads.q.extent[0], heads.q.extent[1]);  // of the rows of A
  range_basis(ctx, head_values<T>{heads.v, heads.h},
              range_results<T>{results.u, results.s, results.rank, results.status}, options.tolerance);
  attention(ctx, attention_operands<T>{heads.q, heads.k, results.u, heads.bias},
            attention_results<T>{.out = results.p, .log_sum_exp = results.log_sum_exp, .sum_of_squares = row_squares},
            with);
  if (!results.received_raw.is_absent()) {
    attention_received(ctx, attention_scores<T>{heads.q, heads.k, results.log_sum_exp, heads.bias},
                       results.received_raw, with);
  }
  if (results.summary.is_absent() && results.received_effective.is_absent()) return op.submit();
  const view<T, 2> p_columns = ctx.device().fp64 ? summarise<T, double>(op, results, row_squares, options.causal)
                                                 : summarise<T, T>(op, results, row_squares, options.causal);
  if (!results.received_effective.is_absent()) {  // u (heads, keys, c) times (1^T P)^T (heads, c, 1)
    gemm(ctx, gemm_operands<T>{results.u, add_dimension(p_columns, 2)}, add_dimension(results.received_effective, 2));
  }
  return op.submit();
}

/// Zeros where j - i > last.
template <class T>
void clear_unseen(operation& op, const view<T, 3>& out, std::int64_t last) {
  detail::launch_rows<T>(op, {out.extent[0] * out.extent[1], out.extent[2], detail::has_neighbours(out)},
                         [&]<int W, int Items>() {
                           return kernels::clear_above_diagonal<T, W, Items>{out, last, 0};
                         });
}

template <class T>
sycl::event make_part(context& ctx, const attention_factors<T>& factors, const view<T, 3>& out,
                      const attention_part_options& options, const events& dependencies) {
  constexpr const char* function = "attention_part";
  const auto& [q, k, log_sum_exp, p, u, bias] = factors;
  const std::int64_t heads = q.extent[0], queries = q.extent[1], keys = k.extent[1];
  check::device_type<T>(function, ctx);
  check::input(function, "q", q);
  check::input(function, "k", k);
  check::input(function, "log_sum_exp", log_sum_exp);
  check::input(function, "p", p);
  check::input(function, "u", u);
  check::output(function, "out", out);
  check::same_extent(function, "q", q, 0, "k", k, 0);
  check::same_extent(function, "q", q, 2, "k", k, 2);
  detail::check_head_size(function, "q", q);
  check::shape(function, "log_sum_exp", log_sum_exp, {heads, queries});
  check::same_extent(function, "out", out, 0, "q", q, 0);
  for (int d : {0, 1}) check::same_extent(function, "p", p, d, "q", q, d);
  for (int d : {0, 1}) check::same_extent(function, "u", u, d, "k", k, d);
  check::same_extent(function, "p", p, 2, "u", u, 2);
  detail::check_bias(function, "bias", bias, {heads, queries, keys});
  detail::check_tile(function, out, options.first_query, options.first_key, queries, keys);
  operation op(ctx, function, dependencies);
  if (out.empty()) return op.submit();
  if (options.matrix != attention_matrix::effective) {
    attention_weights(ctx, attention_scores<T>{q, k, log_sum_exp, bias}, out,
                      attention_tile_options{.attention = {.scale = options.scale, .causal = options.causal},
                                             .first_query = options.first_query,
                                             .first_key = options.first_key});
  }
  if (options.matrix != attention_matrix::raw) {
    const bool is_rest = options.matrix == attention_matrix::null_part;
    gemm(ctx,
         gemm_operands<T>{slice(p, 1, options.first_query, out.extent[1]),
                          transposed(slice(u, 1, options.first_key, out.extent[2]))},
         out, {.alpha = is_rest ? -1.0 : 1.0, .beta = is_rest ? 1.0 : 0.0});
    if (options.by_rows) clear_unseen(op, out, keys - queries + options.first_query - options.first_key);
  }
  return op.submit();
}

}  // namespace

sycl::event effective_attention(context& ctx, const attention_heads<float>& operands,
                                const effective_attention_results<float>& results,
                                const effective_attention_options& options, const events& dependencies) {
  return split(ctx, operands, results, options, dependencies);
}
sycl::event effective_attention(context& ctx, const attention_heads<double>& operands,
                                const effective_attention_results<double>& results,
                                const effective_attention_options& options, const events& dependencies) {
  return split(ctx, operands, results, options, dependencies);
}

sycl::event attention_part(context& ctx, const attention_factors<float>& factors, view<float, 3> out,
                           const attention_part_options& options, const events& dependencies) {
  return make_part(ctx, factors, out, options, dependencies);
}
sycl::event attention_part(context& ctx, const attention_factors<double>& factors, view<double, 3> out,
                           const attention_part_options& options, const events& dependencies) {
  return make_part(ctx, factors, out, options, dependencies);
}

}  // namespace nullscope

#include <algorithm>
#include <nullscope/attention/attention.hpp>
#include <nullscope/attention/effective_attention.hpp>
#include <nullscope/core/operation.hpp>
#include <nullscope/null_space/null_space.hpp>

#include "kernels/attention/by_rows.hpp"
#include "kernels/attention/by_rows_summary.hpp"
#include "lib/src/attention/effective_attention_checks.hpp"
#include "lib/src/core/ranges.hpp"
#include "lib/src/linalg/row_launch.hpp"
#include "lib/src/null_space/tolerance.hpp"

namespace nullscope {
namespace {

constexpr const char* by_rows_name = "effective_attention_by_rows";

/// How many pairs of a query and a key the mask lets see: the sum of the keys of queries [keys - queries, keys).
double visible_pairs(std::int64_t queries, std::int64_t keys) {
  const double all = static_cast<double>(keys), hidden = static_cast<double>(std::max<std::int64_t>(0, keys - queries));
  return all * (all + 1) / 2 - hidden * (hidden + 1) / 2;
}

template <class T, class Sum>
void summarise(operation& op, const effective_attention_results<T>& results, const view<T, 2>& row_squares,
               const view<T, 3>& row_sums) {
  const std::int64_t heads = results.p.extent[0], queries = results.p.extent[1], keys = results.u.extent[1];
  const view<T, 2> summary{reinterpret_cast<T*>(results.summary.data), {heads, 4}, {4 * results.summary.stride[0], 1}};
  constexpr int items = 32;
  detail::launch_groups<items>(
      op, heads,
      kernels::by_rows_summary<T, Sum, items>{row_squares, row_sums, results.rank, summary, std::min(queries, keys),
                                              keys, static_cast<Sum>(visible_pairs(queries, keys))});
}

template <class T>
void project_rows(operation& op, const effective_attention_results<T>& results, const view<T, 3>& row_sums,
                  double tolerance) {
  const std::int64_t heads = results.p.extent[0], columns = results.u.extent[2];
  detail::dispatch_rows<T>(detail::choose_row_shape(op.ctx().layout(), columns, true), [&]<int W, int Items>() {
    using kernel = kernels::attention_by_rows<T, W, Items>;
    T* const memory = op.take_array<T>(heads, kernel::memory_of(columns)).data;
    detail::launch_groups<Items>(op, heads,
                                 kernel{results.p, results.u, results.rank, row_sums, results.received_effective,
                                        memory, static_cast<T>(tolerance)});
  });
}

template <class T>
sycl::event split_rows(context& ctx, const attention_heads<T>& heads, const effective_attention_results<T>& results,
                       const effective_attention_by_rows_options& options, const events& dependencies) {
  detail::check_effective_operands(by_rows_name, ctx, heads);
  detail::check_effective_results(by_rows_name, heads, results);
  detail::check_tolerance(by_rows_name, options.tolerance);
  detail::check_tolerance(by_rows_name, {.relative = options.row_tolerance});
  operation op(ctx, by_rows_name, dependencies);
  const std::int64_t count = heads.q.extent[0], queries = heads.q.extent[1], keys = heads.k.extent[1];
  if (count == 0) return op.submit();
  const attention_options with{.scale = options.scale, .causal = true};
  const auto row_squares = op.take_array<T>(count, queries);  // of the rows of A
  const auto row_sums = op.take_array<T>(count, queries, 2);
  range_basis(ctx, head_values<T>{heads.v, heads.h},
              range_results<T>{results.u, results.s, results.rank, results.status}, options.tolerance);
  attention(ctx, attention_operands<T>{heads.q, heads.k, results.u, heads.bias},
            attention_results<T>{.out = results.p, .log_sum_exp = results.log_sum_exp, .sum_of_squares = row_squares},
            with);
  const std::int64_t width = heads.h.is_absent() ? heads.v.extent[2] : heads.h.extent[2];
  project_rows(op, results, row_sums,
               detail::with_default<T>({.relative = options.row_tolerance}, keys, width).relative);
  if (!results.received_raw.is_absent()) {
    attention_received(ctx, attention_scores<T>{heads.q, heads.k, results.log_sum_exp, heads.bias},
                       results.received_raw, with);
  }
  if (results.summary.is_absent()) return op.submit();
  if (ctx.device().fp64) {
    summarise<T, double>(op, results, row_squares, row_sums);
  } else {
    summarise<T, T>(op, results, row_squares, row_sums);
  }
  return op.submit();
}

}  // namespace

sycl::event effective_attention_by_rows(context& ctx, const attention_heads<float>& operands,
                                        const effective_attention_results<float>& results,
                                        const effective_attention_by_rows_options& options,
                                        const events& dependencies) {
  return split_rows(ctx, operands, results, options, dependencies);
}
sycl::event effective_attention_by_rows(context& ctx, const attention_heads<double>& operands,
                                        const effective_attention_results<double>& results,
                                        const effective_attention_by_rows_options& options,
                                        const events& dependencies) {
  return split_rows(ctx, operands, results, options, dependencies);
}

}  // namespace nullscope

#include "kernels/attention/row_moments.hpp"

#include <algorithm>
#include <nullscope/attention/attention.hpp>
#include <nullscope/attention/attention_statistics.hpp>

#include "kernels/attention/query_rows.hpp"
#include "kernels/linalg/block_sums.hpp"
#include "lib/src/attention/common.hpp"
#include "lib/src/attention/row_block.hpp"
#include "lib/src/core/strides.hpp"
#include "lib/src/linalg/row_launch.hpp"

namespace nullscope {
namespace {

constexpr const char* row_moments_name = "attention_row_moments";

template <class T>
void check_operands(const context& ctx, const attention_row_operands<T>& operands, const view<T, 3>& moments,
                    const attention_row_options& options) {
  const auto& [q, k, u, bias, rows] = operands;
  check::device_type<T>(row_moments_name, ctx);
  check::input(row_moments_name, "q", q);
  check::input(row_moments_name, "k", k);
  check::input(row_moments_name, "u", u);
  check::same_extent(row_moments_name, "q", q, 0, "k", k, 0);
  check::same_extent(row_moments_name, "q", q, 0, "u", u, 0);
  check::same_extent(row_moments_name, "q", q, 2, "k", k, 2);
  check::same_extent(row_moments_name, "k", k, 1, "u", u, 1);
  if (k.extent[1] == 0) check::fail(row_moments_name, "k", k, "has no keys");
  detail::check_head_size(row_moments_name, "q", q);
  detail::check_head_size(row_moments_name, "u", u);
  if (!detail::has_neighbours(u)) check::fail(row_moments_name, "u", u, "has columns that are not adjacent");
  detail::check_bias(row_moments_name, "bias", bias, {q.extent[0], q.extent[1], k.extent[1]});
  check::output(row_moments_name, "moments", moments);
  check::shape(row_moments_name, "moments", moments, {q.extent[0], moments.extent[1], 3});
  if (!rows.is_absent()) {
    check::input(row_moments_name, "rows", rows);
    check::same_extent(row_moments_name, "rows", rows, 0, "q", q, 0);
    check::same_extent(row_moments_name, "rows", rows, 1, "moments", moments, 1);
  }
  detail::check_local_memory<T>(row_moments_name, ctx, q.extent[2], u.extent[2]);
  const std::int64_t first = options.first_query;
  const bool is_within =
      rows.is_absent() ? first >= 0 && first <= q.extent[1] && moments.extent[1] <= q.extent[1] - first : first == 0;
  if (!is_within) {
    check::fail(row_moments_name, "moments", moments,
                fmt::format("from query {} on does not fit {}", first,
                            rows.is_absent() ? fmt::format("{} queries", q.extent[1]) : "a list of rows"));
  }
}

/// U^T 1 (heads, c), from sums of short blocks.
template <class T>
view<T, 2> add_columns(operation& op, const view<const T, 3>& u) {
  const std::int64_t heads = u.extent[0], columns = u.extent[2];
  const std::int64_t blocks = kernels::block_sums<T, 1, 1>::blocks(u.extent[1]);
  const auto sums = op.take_array<T>(heads, blocks, 2, columns);
  const auto out = op.take_array<T>(heads, columns);
  detail::dispatch_rows<T>(detail::choose_row_shape(op.ctx().layout(), columns, true), [&]<int W, int Items>() {
    detail::launch_groups<Items>(op, heads * blocks, kernels::block_sums<T, W, Items>{u, sums});
  });
  constexpr std::int64_t items = 64;
  const sycl::nd_range<1> range = detail::groups_of(detail::ceil_div(heads * columns, items), items);
  if (op.ctx().device().fp64) {
    op.launch(range, 0, kernels::add_block_sums<T, double>{sums, out});
  } else {
    op.launch(range, 0, kernels::add_block_sums<T, T>{sums, out});
  }
  return out;
}

/// What one call of `attention` computes: some queries, and the keys that they may see.
template <class T>
struct query_block {
  view<const T, 3> q, k, u, bias;
  attention_options options;
};

/// The moments of the rows of a block; u_columns is U^T 1.
template <class T>
void find_moments(operation& op, const query_block<T>& block, const view<const T, 2>& u_columns,
                  const view<T, 3>& moments) {
  operation part(op.ctx(), row_moments_name);  // its memory is free again when the block is complete
  const std::int64_t heads = block.q.extent[0], rows = block.q.extent[1], columns = block.u.extent[2];
  const auto p = part.take_array<T>(heads, rows, columns);
  const auto squares = part.take_array<T>(heads, rows);
  attention(op.ctx(), attention_operands<T>{block.q, block.k, block.u, block.bias},
            attention_results<T>{.out = p, .sum_of_squares = squares}, block.options);
  detail::launch_rows<T>(part, {heads * rows, columns, true}, [&]<int W, int Items>() {
    return kernels::attention_row_moments<T, W, Items>{p, squares, u_columns, moments, 0};
  });
  part.submit();
}

/// Queries [first, first + count), which are neighbours.
template <class T>
query_block<T> neighbours(const attention_row_operands<T>& operands, const attention_row_options& options,
                          std::int64_t first, std::int64_t count) {
  query_block<T> block{slice(operands.q, 1, first, count), operands.k, operands.u, operands.bias,
                       attention_options{.scale = options.scale, .causal = options.causal}};
  if (!block.bias.is_absent()) block.bias = slice(block.bias, 1, first, count);
  if (!options.causal) return block;
  // The last query sees the last of these keys, so that the mask of the block is that of the matrix.
  const std::int64_t keys = operands.k.extent[1];
  const std::int64_t seen = std::max<std::int64_t>(0, first + count + keys - operands.q.extent[1]);
  block.k = slice(block.k, 1, 0, seen);
  block.u = slice(block.u, 1, 0, seen);
  if (!block.bias.is_absent()) block.bias = slice(block.bias, 2, 0, seen);
  return block;
}

/// The queries of a list, copied; a mask becomes a bias. `op` keeps the copies.
template <class T>
query_block<T> listed(operation& op, const attention_row_operands<T>& operands, const attention_row_options& options,
                      const view<const std::int64_t, 2>& rows) {
  const std::int64_t heads = rows.extent[0], count = rows.extent[1], size = operands.q.extent[2];
  const std::int64_t keys = operands.k.extent[1];
  const auto q = op.take_array<T>(heads, count, size);
  detail::launch_rows<T>(op, {heads * count, size, detail::has_neighbours(operands.q)}, [&]<int W, int Items>() {
    return kernels::gather_queries<T, W, Items>{operands.q, rows, q, 0};
  });
  query_block<T> block{q, operands.k, operands.u, {}, attention_options{.scale = options.scale}};
  if (operands.bias.is_absent() && !options.causal) return block;
  const auto bias = op.take_array<T>(heads, count, keys);
  detail::launch_rows<T>(op, {heads * count, keys, false}, [&]<int, int Items>() {
    return kernels::gather_score_bias<T, Items>{operands.bias, rows, bias, operands.q.extent[1], options.causal, 0};
  });
  block.bias = bias;
  return block;
}

/// Rows of a list per call: fewer if each has a bias of its own.
std::int64_t rows_per_call(std::int64_t keys, bool has_bias) {
  constexpr std::int64_t numbers = std::int64_t{1} << 22;
  return has_bias ? std::clamp<std::int64_t>(numbers / keys, 1, detail::attention_row_block)
                  : detail::attention_row_block;
}

template <class T>
sycl::event find(context& ctx, const attention_row_operands<T>& operands, const view<T, 3>& moments,
                 const attention_row_options& options, const events& dependencies) {
  check_operands(ctx, operands, moments, options);
  operation op(ctx, row_moments_name, dependencies);
  if (moments.empty()) return op.submit();
  const view<T, 2> u_columns = add_columns(op, operands.u);
  const bool has_list = !operands.rows.is_absent();
  const bool has_bias = has_list && (options.causal || !operands.bias.is_absent());
  const std::int64_t rows = moments.extent[1], step = rows_per_call(operands.k.extent[1], has_bias);
  for (std::int64_t first = 0; first < rows; first += step) {
    const std::int64_t count = std::min(step, rows - first);
    operation part(ctx, row_moments_name);
    find_moments<T>(part,
                    has_list ? listed(part, operands, options, slice(operands.rows, 1, first, count))
                             : neighbours(operands, options, options.first_query + first, count),
                    u_columns, slice(moments, 1, first, count));
    part.submit();
  }
  return op.submit();
}

}  // namespace

sycl::event attention_row_moments(context& ctx, const attention_row_operands<float>& operands, view<float, 3> moments,
                                  const attention_row_options& options, const events& dependencies) {
  return find(ctx, operands, moments, options, dependencies);
}
sycl::event attention_row_moments(context& ctx, const attention_row_operands<double>& operands, view<double, 3> moments,
                                  const attention_row_options& options, const events& dependencies) {
  return find(ctx, operands, moments, options, dependencies);
}

}  // namespace nullscope

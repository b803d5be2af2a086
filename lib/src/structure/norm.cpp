#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nullscope/linalg/rows.hpp>
#include <nullscope/structure/structure_norm.hpp>

#include "kernels/structure/weighted_norm.hpp"
#include "lib/src/attention/common.hpp"
#include "lib/src/core/checks.hpp"
#include "lib/src/core/strides.hpp"
#include "lib/src/linalg/row_launch.hpp"

namespace nullscope {
namespace {

constexpr const char* structure_norm_name = "structure_norm";

/// One matrix of weights for the whole batch, or one for each.
template <class T>
view<const T, 3> weights_of_batch(const view<const T, 3>& weights, std::int64_t batch, std::int64_t rows,
                                  std::int64_t columns) {
  check::input(structure_norm_name, "weights", weights);
  view<const T, 3> all = weights;
  if (weights.extent[0] == 1) {
    all.extent[0] = batch;
    all.stride[0] = 0;
  }
  if (all.extent[0] != batch || all.extent[1] != rows || all.extent[2] != columns) {
    check::fail(structure_norm_name, "weights", weights,
                fmt::format("should be ({} or 1, {}, {})", batch, rows, columns));
  }
  return all;
}

/// sums (batch, rows) = sum_j w_ij |x_ij - y_ij|
template <class T>
void add_up_rows(operation& op, const view<const T, 3>& x, const view<const T, 3>& y, const view<const T, 3>& w,
                 const view<T, 2>& sums) {
  const bool neighbours = detail::has_neighbours(x) && detail::has_neighbours(y) && detail::has_neighbours(w);
  detail::launch_rows<T>(op, {x.extent[0] * x.extent[1], x.extent[2], neighbours}, [&]<int W, int Items>() {
    return kernels::weighted_norm<T, W, Items>{x, y, w, sums, 0};
  });
}

/// out (batch) = the mean over all entries, from the sums of the rows.
template <class T>
void average(operation& op, const view<T, 2>& sums, const view<T, 1>& out, std::int64_t columns) {
  const std::int64_t entries = sums.extent[1] * columns;
  row_reduce(op.ctx(), view<const T, 3>(view<const T, 2>(sums)), out, row_reduction::sum);
  scale(op.ctx(), view<const T, 3>(view<const T, 1>(out)), out, entries == 0 ? T(0) : T(1) / static_cast<T>(entries));
}

template <class T>
sycl::event norm_of_matrices(context& ctx, const structure_norm_operands<T>& operands, const view<T, 1>& out,
                             const events& dependencies) {
  const auto& [a, weights, b] = operands;
  check::device_type<T>(structure_norm_name, ctx);
  check::input(structure_norm_name, "a", a);
  const std::int64_t batch = a.extent[0], rows = a.extent[1], columns = a.extent[2];
  const view<const T, 3> w = weights_of_batch(weights, batch, rows, columns);
  check::optional_input(structure_norm_name, "b", b, {batch, rows, columns});
  check::output(structure_norm_name, "out", out);
  check::shape(structure_norm_name, "out", out, {batch});
  operation op(ctx, structure_norm_name, dependencies);
  const auto sums = op.take_array<T>(batch, rows);
  add_up_rows<T>(op, a, b, w, sums);
  average<T>(op, sums, out, columns);
  return op.submit();
}

/// The factors with p and u of no columns where the raw attention alone is asked for and they were left out.
template <class T>
attention_factors<T> completed(attention_factors<T> factors, attention_matrix matrix) {
  if (matrix != attention_matrix::raw || !factors.p.is_absent() || !factors.u.is_absent()) return factors;
  factors.p = {nullptr, {factors.q.extent[0], factors.q.extent[1], 0}, {0, 0, 1}};
  factors.u = {nullptr, {factors.k.extent[0], factors.k.extent[1], 0}, {0, 0, 1}};
  return factors;
}

template <class T>
void check_factors(const attention_factors<T>& factors, const view<const T, 3>& weights) {
  check::input(structure_norm_name, "q", factors.q);
  check::input(structure_norm_name, "k", factors.k);
  check::same_extent(structure_norm_name, "q", factors.q, 0, "k", factors.k, 0);
  check::same_extent(structure_norm_name, "q", factors.q, 1, "weights", weights, 1);
  check::same_extent(structure_norm_name, "k", factors.k, 1, "weights", weights, 2);
}

template <class T>
sycl::event norm_of_strips(context& ctx, const streamed_structure_operands<T>& operands, const view<T, 1>& out,
                           const streamed_structure_options& options, const events& dependencies) {
  check::device_type<T>(structure_norm_name, ctx);
  const attention_factors<T> a = completed(operands.a, options.matrix), b = completed(operands.b, options.matrix);
  const std::int64_t heads = a.q.extent[0], queries = a.q.extent[1], keys = a.k.extent[1];
  check_factors(a, operands.weights);
  const view<const T, 3> weights = weights_of_batch(operands.weights, heads, queries, keys);
  const bool has_other = !operands.b.q.is_absent();
  if (has_other) {
    check_factors(b, operands.weights);
    check::same_extent(structure_norm_name, "b.q", b.q, 0, "q", a.q, 0);
  }
  check::output(structure_norm_name, "out", out);
  check::shape(structure_norm_name, "out", out, {heads});
  if (options.rows < 0)
    throw invalid_argument(fmt::format("{}: rows is {}; it must not be negative", structure_norm_name, options.rows));
  constexpr std::int64_t strip_bytes = 4 << 20;
  const std::int64_t row_bytes = std::max<std::int64_t>(1, heads * keys * static_cast<std::int64_t>(sizeof(T)));
  const std::int64_t fitting = std::max<std::int64_t>(1, strip_bytes / row_bytes);
  const std::int64_t rows = std::min(options.rows > 0 ? options.rows : fitting, std::max<std::int64_t>(1, queries));

  operation op(ctx, structure_norm_name, dependencies);
  const auto sums = op.take_array<T>(heads, queries);
  const auto strip = op.take_array<T>(heads, rows, keys), other = op.take_array<T>(has_other ? heads : 0, rows, keys);
  for (std::int64_t first = 0; first < queries; first += rows) {
    const std::int64_t count = std::min(rows, queries - first);
    const attention_part_options part{options.matrix, first, 0, options.scale, options.causal};
    const view<T, 3> of_a = slice(strip, 1, 0, count), of_b = has_other ? slice(other, 1, 0, count) : view<T, 3>{};
    attention_part(ctx, a, of_a, part);
    if (has_other) attention_part(ctx, b, of_b, part);
    add_up_rows<T>(op, of_a, of_b, slice(weights, 1, first, count), slice(sums, 1, first, count));
  }
  average<T>(op, sums, out, keys);
  return op.submit();
}

}  // namespace

sycl::event structure_norm(context& ctx, const structure_norm_operands<float>& operands, view<float, 1> out,
                           const events& dependencies) {
  return norm_of_matrices(ctx, operands, out, dependencies);
}
sycl::event structure_norm(context& ctx, const structure_norm_operands<double>& operands, view<double, 1> out,
                           const events& dependencies) {
  return norm_of_matrices(ctx, operands, out, dependencies);
}

sycl::event structure_norm(context& ctx, const streamed_structure_operands<float>& operands, view<float, 1> out,
                           const streamed_structure_options& options, const events& dependencies) {
  return norm_of_strips(ctx, operands, out, options, dependencies);
}
sycl::event structure_norm(context& ctx, const streamed_structure_operands<double>& operands, view<double, 1> out,
                           const streamed_structure_options& options, const events& dependencies) {
  return norm_of_strips(ctx, operands, out, options, dependencies);
}

template <class T>
structure_norm_kind check_structure_weights(const tensor<T>& weights) {
  structure_norm_kind kind = structure_norm_kind::norm;
  const std::vector<T> host = weights.to_host();
  for (std::size_t i = 0; i < host.size(); ++i) {
    if (!(host[i] >= 0) || std::isinf(host[i])) {
      throw invalid_argument(
          fmt::format("check_structure_weights: weight {} of {} is {}; weights are finite and not negative", i,
                      host.size(), host[i]));
    }
    if (host[i] == 0) kind = structure_norm_kind::seminorm;
  }
  return kind;
}

template structure_norm_kind check_structure_weights(const tensor<float>&);
template structure_norm_kind check_structure_weights(const tensor<double>&);

}  // namespace nullscope

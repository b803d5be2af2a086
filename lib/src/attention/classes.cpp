#include <fmt/format.h>

#include <algorithm>
#include <nullscope/attention/attention_statistics.hpp>
#include <nullscope/core/errors.hpp>
#include <nullscope/linalg/gemm.hpp>

#include "kernels/attention/entropy.hpp"
#include "kernels/attention/indicators.hpp"
#include "lib/src/core/checks.hpp"
#include "lib/src/core/fill.hpp"
#include "lib/src/core/ranges.hpp"
#include "lib/src/core/strides.hpp"
#include "lib/src/linalg/row_launch.hpp"

namespace nullscope {
namespace {

template <class T>
view<T, 2> indicators(operation& op, const view<const std::int32_t, 1>& classes, std::int64_t count) {
  constexpr std::int64_t items = 64;
  const auto result = op.take_array<T>(count, classes.extent[0]);
  op.launch(detail::groups_of(detail::ceil_div(classes.extent[0], items), items), 0,
            kernels::class_indicators<T>{classes, result});
  return result;
}

/// Indicators of the classes of queries (classes, queries) and of keys (classes, keys).
template <class T>
struct class_matrices {
  view<T, 2> queries, keys;

  class_matrices(operation& op, const class_views& classes, std::int64_t count)
      : queries(indicators<T>(op, classes.queries, count)), keys(indicators<T>(op, classes.keys, count)) {}
};

/// sums (batch, classes, classes) += those of the rows of x (batch, rows, keys), which begin at query `first`.
template <class T>
void add_sums(operation& op, const class_matrices<T>& of, const view<const T, 3>& x, std::int64_t first,
              const view<T, 3>& sums) {
  const std::int64_t classes = sums.extent[1], rows = x.extent[1];
  const auto by_class = op.take_array<T>(x.extent[0], rows, classes);
  // x (B,rows,keys) (keys,n) -> (B,rows,n); (n,rows) (B,rows,n) -> (B,n,n)
  gemm(op.ctx(), gemm_operands<T>{x, transposed(view<const T, 3>(of.keys))}, by_class);
  gemm(op.ctx(), gemm_operands<T>{view<const T, 3>(slice(of.queries, 1, first, rows)), by_class}, sums, {.beta = 1});
}

template <class T>
void clear(operation& op, const view<T, 3>& x) {
  const std::int64_t classes = x.extent[1];
  const auto nothing = op.take_array<T>(std::int64_t{1}, classes, std::int64_t{0});
  gemm(op.ctx(), gemm_operands<T>{nothing, transposed(nothing)}, x);  // a sum of nothing
}

void check_classes(const char* function, const class_views& classes, std::int64_t queries, std::int64_t keys) {
  check::input(function, "queries", classes.queries);
  check::input(function, "keys", classes.keys);
  check::shape(function, "queries", classes.queries, {queries});
  check::shape(function, "keys", classes.keys, {keys});
}

template <class T>
void check_sums(const char* function, const char* name, const view<T, 3>& sums, std::int64_t batch) {
  check::output(function, name, sums);
  check::shape(function, name, sums, {batch, sums.extent[1], sums.extent[1]});
  if (sums.extent[1] < 1) check::fail(function, name, sums, "has no classes");
}

template <class T>
sycl::event sum_classes(context& ctx, const class_sum_operands<T>& operands, const view<T, 3>& sums,
                        const events& dependencies) {
  constexpr const char* function = "class_sums";
  check::device_type<T>(function, ctx);
  check::input(function, "x", operands.x);
  check_classes(function, operands.classes, operands.x.extent[1], operands.x.extent[2]);
  check_sums(function, "sums", sums, operands.x.extent[0]);
  operation op(ctx, function, dependencies);
  clear(op, sums);
  if (!operands.x.empty()) {
    add_sums(op, class_matrices<T>(op, operands.classes, sums.extent[1]), operands.x, 0, sums);
  }
  return op.submit();
}

template <class T>
void add_entropy(operation& op, const view<const T, 3>& a, const view<T, 2>& out) {
  detail::launch_rows<T>(op, {a.extent[0] * a.extent[1], a.extent[2], detail::has_neighbours(a)},
                         [&]<int W, int Items>() {
                           return kernels::row_entropy<T, W, Items>{a, out, 0};
                         });
}

template <class T>
sycl::event classify(context& ctx, const attention_class_operands<T>& operands,
                     const attention_class_results<T>& results, const attention_class_options& options,
                     const events& dependencies) {
  constexpr const char* function = "attention_classes";
  const attention_factors<T>& factors = operands.factors;
  const std::int64_t heads = factors.q.extent[0], queries = factors.q.extent[1], keys = factors.k.extent[1];
  check::device_type<T>(function, ctx);
  check::input(function, "q", factors.q);
  check::input(function, "k", factors.k);
  check_classes(function, operands.classes, queries, keys);
  check_sums(function, "raw", results.raw, heads);
  check_sums(function, "effective", results.effective, heads);
  check::same_shape(function, "effective", results.effective, "raw", results.raw);
  check::optional_output(function, "entropy", results.entropy, {heads, queries});
  if (options.tile_bytes < 1) {
    throw invalid_argument(fmt::format("{}: tile_bytes is {}; it must be positive", function, options.tile_bytes));
  }
  operation op(ctx, function, dependencies);
  clear(op, results.raw);
  clear(op, results.effective);
  const class_matrices<T> of(op, operands.classes, results.raw.extent[1]);
  const std::int64_t row_bytes = std::max<std::int64_t>(1, 2 * heads * keys * static_cast<std::int64_t>(sizeof(T)));
  const std::int64_t most =
      std::clamp<std::int64_t>(options.tile_bytes / row_bytes, 1, std::max<std::int64_t>(1, queries));
  for (std::int64_t first = 0; first < std::max<std::int64_t>(1, queries); first += most) {
    operation part(ctx, function);  // its workspace serves the next tile
    const std::int64_t rows = std::min(most, queries - first);
    const auto raw = part.take_array<T>(heads, rows, keys), effective = part.take_array<T>(heads, rows, keys);
    attention_part_options tile{.matrix = attention_matrix::raw,
                                .first_query = first,
                                .scale = options.scale,
                                .causal = options.causal,
                                .by_rows = options.by_rows};
    attention_part(ctx, factors, raw, tile);  // checks the factors
    tile.matrix = attention_matrix::effective;
    attention_part(ctx, factors, effective, tile);
    if (!raw.empty()) {
      add_sums<T>(part, of, raw, first, results.raw);
      add_sums<T>(part, of, effective, first, results.effective);
      if (!results.entropy.is_absent()) add_entropy<T>(part, raw, slice(results.entropy, 1, first, rows));
    }
    part.submit();
  }
  return op.submit();
}

}  // namespace

sycl::event class_sums(context& ctx, const class_sum_operands<float>& operands, view<float, 3> sums,
                       const events& dependencies) {
  return sum_classes(ctx, operands, sums, dependencies);
}
sycl::event class_sums(context& ctx, const class_sum_operands<double>& operands, view<double, 3> sums,
                       const events& dependencies) {
  return sum_classes(ctx, operands, sums, dependencies);
}

sycl::event attention_classes(context& ctx, const attention_class_operands<float>& operands,
                              const attention_class_results<float>& results, const attention_class_options& options,
                              const events& dependencies) {
  return classify(ctx, operands, results, options, dependencies);
}
sycl::event attention_classes(context& ctx, const attention_class_operands<double>& operands,
                              const attention_class_results<double>& results, const attention_class_options& options,
                              const events& dependencies) {
  return classify(ctx, operands, results, options, dependencies);
}

}  // namespace nullscope

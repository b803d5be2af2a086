/// What the functions of attention share on the host: checks, scales, panels.
#pragma once

#include <cmath>
#include <cstdint>
#include <nullscope/attention/attention.hpp>
#include <string_view>

#include "kernels/attention/exp2.hpp"
#include "kernels/attention/forward_vectors.hpp"
#include "kernels/attention/local.hpp"
#include "kernels/linalg/to_panels.hpp"
#include "lib/src/attention/bias.hpp"
#include "lib/src/attention/shapes.hpp"
#include "lib/src/core/checks.hpp"
#include "lib/src/core/ranges.hpp"

namespace nullscope::detail {

constexpr std::int64_t largest_head = 512;

template <class T, int Rank>
void check_head_size(std::string_view function, std::string_view operand, const view<T, Rank>& x) {
  if (x.extent[Rank - 1] < 1) check::fail(function, operand, x, "has heads of no columns");
  if (x.extent[Rank - 1] > largest_head) check::fail(function, operand, x, "has heads of more than 512 columns");
}

/// out (..., rows, columns) is a tile of matrices of queries x keys. Compared so that nothing overflows.
template <class T, int Rank>
void check_tile(std::string_view function, const view<T, Rank>& out, std::int64_t first_query, std::int64_t first_key,
                std::int64_t queries, std::int64_t keys) {
  const auto is_within = [](std::int64_t first, std::int64_t count, std::int64_t all) {
    return first >= 0 && first <= all && count <= all - first;
  };
  if (is_within(first_query, out.extent[Rank - 2], queries) && is_within(first_key, out.extent[Rank - 1], keys)) return;
  check::fail(function, "out", out,
              fmt::format("from query {} and key {} on goes beyond {} queries and {} keys", first_query, first_key,
                          queries, keys));
}

/// q (batch, heads, queries, dk) and k (batch, heads, keys, dk).
template <class In>
void check_queries_and_keys(std::string_view function, const view<const In, 4>& q, const view<const In, 4>& k) {
  check::input(function, "q", q);
  check::input(function, "k", k);
  for (int d : {0, 1, 3}) check::same_extent(function, "q", q, d, "k", k, d);
  check_head_size(function, "q", q);
}

/// v (batch, heads, keys, dv), with the batch, heads and keys of k.
template <class In>
void check_values(std::string_view function, const view<const In, 4>& k, const view<const In, 4>& v) {
  check::input(function, "v", v);
  for (int d : {0, 1, 2}) check::same_extent(function, "k", k, d, "v", v, d);
  check_head_size(function, "v", v);
}

/// log_sum_exp (batch, heads, queries) as an operand.
template <class T, class In>
void check_log_sum_exp(std::string_view function, const view<const T, 3>& log_sum_exp, const view<const In, 4>& q) {
  check::input(function, "log_sum_exp", log_sum_exp);
  for (int d : {0, 1, 2}) check::same_extent(function, "log_sum_exp", log_sum_exp, d, "q", q, d);
}

template <class In>
void check_lengths(std::string_view function, const attention_options& options, const view<const In, 4>& q) {
  check::optional_input(function, "lengths", options.lengths, {q.extent[0]});
  if (options.lengths.extent[0] > 1 && options.lengths.stride[0] != 1) {
    check::fail(function, "lengths", options.lengths, "is not contiguous");
  }
}

inline double scale_of(const attention_options& options, std::int64_t dk) {
  if (options.scale != 0) return options.scale;
  return 1 / std::sqrt(static_cast<double>(dk));
}

template <class T>
kernels::score_scale<T> score_scale_of(const attention_options& options, std::int64_t dk) {
  const double scale = scale_of(options, dk) * kernels::score_exponential<T>::units;
  return {static_cast<T>(std::abs(scale)), static_cast<T>(scale < 0 ? -1 : 1)};
}

inline kernels::attention_visibility visibility_of(const attention_options& options, std::int64_t queries,
                                                   std::int64_t keys) {
  return {options.lengths.data, options.causal, keys - queries};
}

/// Local memory that the forward kernel of a shape needs at least, for heads of dk and dv.
template <class T, class Shape>
std::int64_t forward_local_bytes(std::int64_t dk, std::int64_t dv) {
  if constexpr (Shape::width > 1) {
    return kernels::attention_forward_vectors<T, T, Shape, false>::local_bytes(1, dk, dv);
  } else {
    return kernels::attention_local<T, Shape>::bytes(Shape::workers, dk, dv);
  }
}

/// Calls call.operator()<Shape>() with the shape of the forward kernel for heads of dk and dv.
template <class T, class Call>
auto dispatch_forward(const context& ctx, std::int64_t dk, std::int64_t dv, Call call) {
  return dispatch_shape<attention_forward_shapes<T>>(
      ctx.layout(), [&]<class Shape>() { return forward_local_bytes<T, Shape>(dk, dv) <= ctx.layout().local_bytes; },
      call);
}

/// Throws unsupported_device if no forward kernel can hold heads of dk and dv.
template <class T>
void check_local_memory(std::string_view function, const context& ctx, std::int64_t dk, std::int64_t dv) {
  const std::int64_t needed =
      dispatch_forward<T>(ctx, dk, dv, [&]<class Shape>() { return forward_local_bytes<T, Shape>(dk, dv); });
  if (needed <= ctx.layout().local_bytes) return;
  throw unsupported_device(fmt::format("{}: {} has {} usable bytes of local memory, heads of {} and {} need {}",
                                       function, ctx.device().name, ctx.layout().local_bytes, dk, dv, needed));
}

/// Calls call(views...) with batch and heads as one dimension if all views allow it, otherwise once per batch entry.
/// The views are (batch, heads, rows, columns) and become (matrices, rows, columns).
template <class Call, class First, class... Views>
void for_matrices(Call call, const First& first, const Views&... views) {
  if (can_merge(first, 0) && (can_merge(views, 0) && ...)) return call(merge(first, 0), merge(views, 0)...);
  for (std::int64_t batch = 0; batch < first.extent[0]; ++batch) {
    call(select(first, 0, batch), select(views, 0, batch)...);
  }
}

/// Copies x (batch, heads, rows, columns) into panels of PanelColumns, a multiple of W, with `Items` work-items per
/// group. Returns the panels: (batch * heads, panels, rows, PanelColumns).
template <class T, int W, int Items, int PanelColumns, class In>
T* take_panels(operation& op, const view<const In, 4>& x, step_order order) {
  static_assert(PanelColumns % W == 0);
  using kernel = kernels::to_panels<In, T, W, Items, PanelColumns>;
  const std::int64_t matrices = x.extent[0] * x.extent[1], panels = ceil_div(x.extent[3], PanelColumns);
  T* to = op.take_array<T>(matrices, panels, x.extent[2], PanelColumns).data;
  const std::int64_t groups = matrices * panels * ceil_div(x.extent[2], kernel::rows_per_group);
  op.launch(groups_of(groups, Items), 0, kernel{x, to}, order);
  return to;
}

/// Panels of Shape::columns: values as they are, keys as columns.
template <class Shape, class T, class In>
T* take_wide_panels(operation& op, const view<const In, 4>& x, step_order order = step_order::beside) {
  return take_panels<T, Shape::width, Shape::lanes, Shape::columns>(op, x, order);
}

/// Panels of Shape::rows: queries as columns.
template <class Shape, class T, class In>
T* take_narrow_panels(operation& op, const view<const In, 4>& x, step_order order = step_order::beside) {
  constexpr int width = Shape::width == 1 ? 1 : Shape::rows % 4 == 0 ? 4 : 2;
  return take_panels<T, width, Shape::lanes, Shape::rows>(op, x, order);
}

}  // namespace nullscope::detail

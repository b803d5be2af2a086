/// What the functions of attention share on the host: checks, panels.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <nullscope/attention.hpp>
#include <nullscope/launch.hpp>
#include <string_view>
#include <vector>

#include "attention_exp2.hpp"
#include "attention_local.hpp"
#include "attention_shapes.hpp"
#include "attention_vectors.hpp"
#include "checks.hpp"
#include "pack_panels.hpp"
#include "scratchpad.hpp"
#include "team_shape.hpp"

namespace nullscope::detail {

constexpr std::int64_t largest_head = 512;

template <class T, int Rank>
void check_head_size(std::string_view function, std::string_view operand, const view<T, Rank>& x) {
  if (x.extent[Rank - 1] < 1) check::fail(function, operand, x, "has heads of no columns");
  if (x.extent[Rank - 1] > largest_head) check::fail(function, operand, x, "has heads of more than 512");
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

/// x (batch, heads, queries), as q has them.
template <class X, class In>
void check_rows(std::string_view function, std::string_view operand, const view<X, 3>& x, const view<const In, 4>& q) {
  for (int d : {0, 1, 2}) check::same_extent(function, operand, x, d, "q", q, d);
}

template <class In>
void check_lengths(std::string_view function, const attention_options& options, const view<const In, 4>& q) {
  if (options.lengths.data == nullptr) return;
  check::input(function, "lengths", options.lengths);
  check::same_extent(function, "lengths", options.lengths, 0, "q", q, 0);
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

/// Calls call.operator()<Shape>() with the layout of the kernels of weights for the queue's device.
template <class T, class Call>
auto with_weights_shape(const sycl::queue& queue, Call call) {
  return with_vector_bytes(choose_attention_lanes(queue.get_device()), [&]<int Bytes>() {
    if constexpr (Bytes == 0) {
      return call.template operator()<attention_work_items>();
    } else {
      return call.template operator()<typename attention_vector_shapes<T, Bytes>::weights>();
    }
  });
}

/// Calls call.operator()<Shape>() with the layout of the forward kernel of GPUs for heads of dk and dv.
template <class T, class Call>
auto with_forward_shape(const sycl::queue& queue, std::int64_t dk, std::int64_t dv, Call call) {
  const std::int64_t available = properties(queue.get_device()).usable_local_bytes();
  if (choose_attention_lanes(queue.get_device()) == attention_lanes::one_worker ||
      kernels::attention_local<T, attention_work_items>::bytes(attention_work_items::workers, dk, dv) > available) {
    return call.template operator()<attention_one_worker>();
  }
  return call.template operator()<attention_work_items>();
}

/// Throws unsupported_device if no forward kernel can hold heads of dk and dv.
template <class T>
void check_local_memory(std::string_view function, const sycl::queue& queue, std::int64_t dk, std::int64_t dv) {
  if (attention_vectors_serve<T>(queue, dk, dv)) return;
  const std::int64_t needed = with_forward_shape<T>(
      queue, dk, dv, [&]<class Shape>() { return kernels::attention_local<T, Shape>::bytes(Shape::workers, dk, dv); });
  const device_properties& device = properties(queue.get_device());
  if (needed <= device.usable_local_bytes()) return;
  throw unsupported_device(fmt::format("{}: {} has {} usable bytes of local memory, heads of {} and {} need {}",
                                       function, device.name, device.usable_local_bytes(), dk, dv, needed));
}

/// Numbers that x (batch, heads, rows, columns) takes in panels of `panel_columns`.
template <class In>
std::int64_t panel_numbers(const view<const In, 4>& x, std::int64_t panel_columns) {
  return x.extent[0] * x.extent[1] * x.extent[2] * ceil_div(x.extent[3], panel_columns) * panel_columns;
}

/// x (batch, heads, rows, columns) -> panels of PanelColumns, which W divides; `Items` work-items a group.
template <int W, int Items, int PanelColumns, class In, class T>
sycl::event pack_into_panels(sycl::queue& queue, const view<const In, 4>& x, T* panels,
                             const std::vector<sycl::event>& dependencies) {
  static_assert(PanelColumns % W == 0);
  using kernel = kernels::pack_panels<In, T, W, Items, PanelColumns>;
  const std::int64_t groups =
      x.extent[0] * x.extent[1] * ceil_div(x.extent[3], PanelColumns) * ceil_div(x.extent[2], kernel::rows_per_group);
  return launch(queue, groups_of(groups, Items), 0, kernel{x, panels}, dependencies);
}

/// In panels of Shape::columns: values as they are, keys as columns.
template <class Shape, class In, class T>
sycl::event pack_wide(sycl::queue& queue, const view<const In, 4>& x, T* panels,
                      const std::vector<sycl::event>& dependencies) {
  return pack_into_panels<Shape::width, Shape::lanes, Shape::columns>(queue, x, panels, dependencies);
}

/// In panels of Shape::rows: queries as columns.
template <class Shape, class In, class T>
sycl::event pack_narrow(sycl::queue& queue, const view<const In, 4>& x, T* panels,
                        const std::vector<sycl::event>& dependencies) {
  constexpr int width = Shape::width == 1 ? 1 : Shape::rows % 4 == 0 ? 4 : 2;
  return pack_into_panels<width, Shape::lanes, Shape::rows>(queue, x, panels, dependencies);
}

}  // namespace nullscope::detail

#include <nullscope/attention.hpp>

#include <algorithm>
#include <cmath>
#include <nullscope/launch.hpp>

#include "attention_forward.hpp"
#include "attention_shapes.hpp"
#include "checks.hpp"
#include "pack_panels.hpp"
#include "team_shape.hpp"

namespace nullscope {
namespace detail {
namespace {

std::optional<attention_lanes> forced_lanes;

}  // namespace

void force_attention_lanes(std::optional<attention_lanes> lanes) { forced_lanes = lanes; }

attention_lanes choose_attention_lanes(const sycl::device& device) {
  if (forced_lanes) return *forced_lanes;
  return properties(device).kind == device_kind::cpu ? attention_lanes::vectors : attention_lanes::work_items;
}

}  // namespace detail

namespace {

constexpr const char* name = "attention";
constexpr std::int64_t largest_head = 512;
constexpr std::int64_t alignment = 64;  // bytes, of the parts of a scratchpad

template <class In>
using number_of = std::conditional_t<std::is_same_v<In, bfloat16>, float, In>;

/// Numbers that the panels of x (batch, heads, rows, columns) take.
template <class Shape, class In>
std::int64_t panel_numbers(const view<const In, 4>& x) {
  return x.extent[0] * x.extent[1] * x.extent[2] * detail::ceil_div(x.extent[3], Shape::columns) * Shape::columns;
}

template <class Shape, class In>
std::int64_t scratchpad_bytes(const view<const In, 4>& k, const view<const In, 4>& v) {
  constexpr auto size = static_cast<std::int64_t>(sizeof(number_of<In>));
  return (panel_numbers<Shape>(transposed(k)) + panel_numbers<Shape>(v)) * size + 2 * alignment;
}

/// Calls call.operator()<Shape>() with the layout for the queue's device.
template <class T, class Call>
auto with_shape(const sycl::queue& queue, Call call) {
  if (detail::choose_attention_lanes(queue.get_device()) == detail::attention_lanes::vectors) {
    return call.template operator()<detail::attention_vectors<T>>();
  }
  return call.template operator()<detail::attention_work_items>();
}

template <class In, class T>
void validate(const sycl::queue& queue, const view<const In, 4>& q, const view<const In, 4>& k,
              const view<const In, 4>& v, const view<T, 4>& out, const attention_row_results<T>& row_results,
              const attention_options& options) {
  check::device_type<T>(name, queue);
  check::input(name, "q", q);
  check::input(name, "k", k);
  check::input(name, "v", v);
  check::output(name, "out", out);
  for (int d : {0, 1}) {
    check::same_extent(name, "q", q, d, "k", k, d);
    check::same_extent(name, "q", q, d, "v", v, d);
    check::same_extent(name, "q", q, d, "out", out, d);
  }
  check::same_extent(name, "q", q, 3, "k", k, 3);
  check::same_extent(name, "k", k, 2, "v", v, 2);
  check::same_extent(name, "q", q, 2, "out", out, 2);
  check::same_extent(name, "v", v, 3, "out", out, 3);
  if (q.extent[3] > largest_head) check::fail(name, "q", q, "has heads of more than 512");
  if (v.extent[3] > largest_head) check::fail(name, "v", v, "has heads of more than 512");
  const auto check_rows = [&](const char* operand, const view<T, 3>& rows) {
    if (rows.data == nullptr) return;
    check::output(name, operand, rows);
    for (int d : {0, 1, 2}) check::same_extent(name, operand, rows, d, "q", q, d);
  };
  check_rows("log_sum_exp", row_results.log_sum_exp);
  check_rows("sum_of_squares", row_results.sum_of_squares);
  if (options.lengths.data != nullptr) {
    check::input(name, "lengths", options.lengths);
    check::same_extent(name, "lengths", options.lengths, 0, "q", q, 0);
    if (options.lengths.extent[0] > 1 && options.lengths.stride[0] != 1) {
      check::fail(name, "lengths", options.lengths, "is not contiguous");
    }
  }
}

template <class Shape, class In, class T>
sycl::event pack(sycl::queue& queue, const view<const In, 4>& x, T* panels,
                 const std::vector<sycl::event>& dependencies) {
  constexpr int items = Shape::lanes;
  using kernel = kernels::pack_panels<In, T, Shape::width, items, Shape::columns>;
  const std::int64_t groups = x.extent[0] * x.extent[1] * detail::ceil_div(x.extent[3], Shape::columns) *
                              detail::ceil_div(x.extent[2], kernel::rows_per_group);
  return launch(queue, detail::groups_of(groups, items), 0, kernel{x, panels}, dependencies);
}

/// Panels of queries that a work-group takes: what local memory holds, no more than gives every compute unit work.
template <class Shape, class T>
std::int64_t panels_of_group(const sycl::queue& queue, const view<T, 4>& out, std::int64_t dk) {
  const device_properties& device = properties(queue.get_device());
  const std::int64_t dv = out.extent[3], panels = detail::ceil_div(out.extent[2], Shape::rows);
  const auto fits = [&](std::int64_t count) {
    return kernels::attention_local<T, Shape>::bytes(count, dk, dv) <= device.local_memory_bytes - alignment;
  };
  std::int64_t count = Shape::workers;
  if (!fits(count)) {
    throw unsupported_device(fmt::format("{}: {} has {} bytes of local memory, heads of {} and {} need {}", name,
                                         device.name, device.local_memory_bytes, dk, dv,
                                         kernels::attention_local<T, Shape>::bytes(count, dk, dv)));
  }
  constexpr std::int64_t most = 8;  // more would not make better use of the keys in cache
  const std::int64_t heads = out.extent[0] * out.extent[1];
  while (count + Shape::workers <= most && fits(count + Shape::workers) &&
         heads * detail::ceil_div(panels, count + Shape::workers) >= 4 * device.compute_units) {
    count += Shape::workers;
  }
  return count;
}

template <class Shape, class In, class T>
sycl::event run(sycl::queue& queue, const view<const In, 4>& q, const view<const In, 4>& k, const view<const In, 4>& v,
                const view<T, 4>& out, const attention_row_results<T>& row_results, std::byte* scratchpad,
                const attention_options& options, const std::vector<sycl::event>& dependencies) {
  const std::int64_t panels = panels_of_group<Shape>(queue, out, q.extent[3]);
  const auto aligned = [](std::byte* p) { return p + (-reinterpret_cast<std::uintptr_t>(p) & (alignment - 1)); };
  T* key_panels = reinterpret_cast<T*>(aligned(scratchpad));
  T* value_panels =
      reinterpret_cast<T*>(aligned(reinterpret_cast<std::byte*>(key_panels + panel_numbers<Shape>(transposed(k)))));
  const std::vector<sycl::event> packed{pack<Shape>(queue, transposed(k), key_panels, dependencies),
                                        pack<Shape>(queue, v, value_panels, dependencies)};

  const std::int64_t query_blocks = detail::ceil_div(q.extent[2], panels * Shape::rows);
  const double scale = options.scale != 0 ? options.scale : 1 / std::sqrt(static_cast<double>(q.extent[3]));
  const kernels::attention_visibility visibility{options.lengths.data, options.causal, k.extent[2] - q.extent[2]};
  const kernels::attention_forward<In, T, Shape> kernel{q,
                                                        key_panels,
                                                        value_panels,
                                                        out,
                                                        row_results.log_sum_exp,
                                                        row_results.sum_of_squares,
                                                        visibility,
                                                        k.extent[2],
                                                        static_cast<T>(scale),
                                                        panels,
                                                        query_blocks};
  return launch(queue, detail::groups_of(q.extent[0] * q.extent[1] * query_blocks, Shape::work_items),
                static_cast<std::size_t>(kernels::attention_local<T, Shape>::bytes(panels, q.extent[3], out.extent[3])),
                kernel, packed);
}

}  // namespace

template <class In>
std::int64_t attention_scratchpad_size(const sycl::queue& queue, view<const In, 4> k, view<const In, 4> v) {
  return with_shape<number_of<In>>(queue, [&]<class Shape>() { return scratchpad_bytes<Shape>(k, v); });
}

template <class In, class T>
sycl::event attention(sycl::queue& queue, view<const In, 4> q, view<const In, 4> k, view<const In, 4> v, view<T, 4> out,
                      const std::type_identity_t<attention_row_results<T>>& row_results,
                      std::span<std::byte> scratchpad, const attention_options& options,
                      const std::vector<sycl::event>& dependencies) {
  validate(queue, q, k, v, out, row_results, options);
  check::scratchpad(name, scratchpad, attention_scratchpad_size<In>(queue, k, v));
  if (out.empty()) return join(queue, dependencies);
  return with_shape<T>(queue, [&]<class Shape>() {
    return run<Shape>(queue, q, k, v, out, row_results, scratchpad.data(), options, dependencies);
  });
}

template std::int64_t attention_scratchpad_size(const sycl::queue&, view<const float, 4>, view<const float, 4>);
template std::int64_t attention_scratchpad_size(const sycl::queue&, view<const double, 4>, view<const double, 4>);
template std::int64_t attention_scratchpad_size(const sycl::queue&, view<const bfloat16, 4>, view<const bfloat16, 4>);
template sycl::event attention(sycl::queue&, view<const float, 4>, view<const float, 4>, view<const float, 4>,
                               view<float, 4>, const attention_row_results<float>&, std::span<std::byte>,
                               const attention_options&, const std::vector<sycl::event>&);
template sycl::event attention(sycl::queue&, view<const double, 4>, view<const double, 4>, view<const double, 4>,
                               view<double, 4>, const attention_row_results<double>&, std::span<std::byte>,
                               const attention_options&, const std::vector<sycl::event>&);
template sycl::event attention(sycl::queue&, view<const bfloat16, 4>, view<const bfloat16, 4>, view<const bfloat16, 4>,
                               view<float, 4>, const attention_row_results<float>&, std::span<std::byte>,
                               const attention_options&, const std::vector<sycl::event>&);

}  // namespace nullscope

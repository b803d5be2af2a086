#include <nullscope/attention.hpp>

#include "attention_common.hpp"
#include "attention_forward.hpp"
#include "attention_tiles.hpp"

namespace nullscope {
namespace detail {
namespace {

std::optional<attention_lanes> forced_lanes;

}  // namespace

void force_attention_lanes(std::optional<attention_lanes> lanes) { forced_lanes = lanes; }

attention_lanes choose_attention_lanes(const sycl::device& device) {
  if (forced_lanes && forced_lanes != attention_lanes::tiles) return *forced_lanes;
  const device_properties& found = properties(device);
  if (found.kind != device_kind::cpu) return attention_lanes::work_items;
  return found.has_512_bit_vectors() ? attention_lanes::vectors_512 : attention_lanes::vectors_256;
}

bool attention_may_take_tiles() { return !forced_lanes || forced_lanes == attention_lanes::tiles; }

}  // namespace detail

namespace {

constexpr const char* name = "attention";

template <class Shape, class In>
std::int64_t scratchpad_bytes(const view<const In, 4>& k, const view<const In, 4>& v) {
  using number = kernels::number_of<In>;
  detail::scratchpad_parts parts;
  parts.take<number>(detail::panel_numbers(transposed(k), Shape::columns));
  parts.take<number>(detail::panel_numbers(v, Shape::columns));
  return parts.bytes();
}

template <class In>
bool takes_tiles(const sycl::queue& queue, const view<const In, 4>& k, const view<const In, 4>& v) {
  return std::is_same_v<In, bfloat16> && detail::attention_may_take_tiles() &&
         detail::attention_tiles_serve(queue.get_device(), k.extent[3], v.extent[3]);
}

template <class In, class T>
void validate(const sycl::queue& queue, const view<const In, 4>& q, const view<const In, 4>& k,
              const view<const In, 4>& v, const view<T, 4>& out, const attention_row_results<T>& row_results,
              const attention_options& options) {
  check::device_type<T>(name, queue);
  detail::check_queries_and_keys(name, q, k);
  check::input(name, "v", v);
  check::output(name, "out", out);
  for (int d : {0, 1}) {
    check::same_extent(name, "q", q, d, "v", v, d);
    check::same_extent(name, "q", q, d, "out", out, d);
  }
  check::same_extent(name, "k", k, 2, "v", v, 2);
  check::same_extent(name, "q", q, 2, "out", out, 2);
  check::same_extent(name, "v", v, 3, "out", out, 3);
  detail::check_head_size(name, "v", v);
  const auto check_result = [&](const char* operand, const view<T, 3>& rows) {
    if (rows.data == nullptr) return;
    check::output(name, operand, rows);
    detail::check_rows(name, operand, rows, q);
  };
  check_result("log_sum_exp", row_results.log_sum_exp);
  check_result("sum_of_squares", row_results.sum_of_squares);
  detail::check_lengths(name, options, q);
}

/// Panels of queries that a work-group takes: what local memory holds, no more than gives every compute unit work.
template <class Shape, class T>
std::int64_t panels_of_group(const sycl::queue& queue, const view<T, 4>& out, std::int64_t dk) {
  const device_properties& device = properties(queue.get_device());
  const std::int64_t dv = out.extent[3], panels = detail::ceil_div(out.extent[2], Shape::rows);
  const auto fits = [&](std::int64_t count) {
    return kernels::attention_local<T, Shape>::bytes(count, dk, dv) <= device.usable_local_bytes();
  };
  detail::check_local_memory<T>(name, queue, dk, dv);
  std::int64_t count = Shape::workers;
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
  detail::scratchpad_parts parts(scratchpad);
  T* key_panels = parts.take<T>(detail::panel_numbers(transposed(k), Shape::columns));
  T* value_panels = parts.take<T>(detail::panel_numbers(v, Shape::columns));
  const std::vector<sycl::event> packed{detail::pack_wide<Shape>(queue, transposed(k), key_panels, dependencies),
                                        detail::pack_wide<Shape>(queue, v, value_panels, dependencies)};

  const std::int64_t query_blocks = detail::ceil_div(q.extent[2], panels * Shape::rows);
  const kernels::attention_forward<In, T, Shape> kernel{q,
                                                        key_panels,
                                                        value_panels,
                                                        out,
                                                        row_results.log_sum_exp,
                                                        row_results.sum_of_squares,
                                                        detail::visibility_of(options, q.extent[2], k.extent[2]),
                                                        k.extent[2],
                                                        detail::score_scale_of<T>(options, q.extent[3]),
                                                        panels,
                                                        query_blocks};
  return launch(queue, detail::groups_of(q.extent[0] * q.extent[1] * query_blocks, Shape::work_items),
                static_cast<std::size_t>(kernels::attention_local<T, Shape>::bytes(panels, q.extent[3], out.extent[3])),
                kernel, packed);
}

}  // namespace

template <class In>
std::int64_t attention_scratchpad_size(const sycl::queue& queue, view<const In, 4> k, view<const In, 4> v) {
  using number = kernels::number_of<In>;
  if constexpr (std::is_same_v<In, bfloat16>) {
    if (takes_tiles(queue, k, v)) return detail::attention_tiles_scratchpad_size(k, v);
  }
  if (detail::attention_vectors_serve<number>(queue, k.extent[3], v.extent[3])) {
    return detail::attention_vectors_scratchpad_size(k, v);
  }
  return detail::with_forward_shape<number>(queue, k.extent[3], v.extent[3],
                                            [&]<class Shape>() { return scratchpad_bytes<Shape>(k, v); });
}

template <class In, class T>
sycl::event attention(sycl::queue& queue, view<const In, 4> q, view<const In, 4> k, view<const In, 4> v, view<T, 4> out,
                      const std::type_identity_t<attention_row_results<T>>& row_results,
                      std::span<std::byte> scratchpad, const attention_options& options,
                      const std::vector<sycl::event>& dependencies) {
  validate(queue, q, k, v, out, row_results, options);
  check::scratchpad(name, scratchpad, attention_scratchpad_size<In>(queue, k, v));
  if (out.empty()) return join(queue, dependencies);
  if constexpr (std::is_same_v<In, bfloat16>) {
    if (takes_tiles(queue, k, v)) {
      return detail::attention_tiles(queue, q, k, v, out, row_results, scratchpad.data(), options, dependencies);
    }
  }
  if (detail::attention_vectors_serve<T>(queue, q.extent[3], v.extent[3])) {
    return detail::attention_vectors(queue, q, k, v, out, row_results, scratchpad.data(), options, dependencies);
  }
  return detail::with_forward_shape<T>(queue, q.extent[3], v.extent[3], [&]<class Shape>() {
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

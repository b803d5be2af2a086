#include <nullscope/attention_weights.hpp>
#include <nullscope/gemm.hpp>

#include "attention_common.hpp"
#include "attention_exponentials.hpp"
#include "attention_received.hpp"

namespace nullscope {
namespace {

template <class T>
void validate_weights(const sycl::queue& queue, const view<const T, 4>& q, const view<const T, 4>& k,
                      const view<const T, 3>& log_sum_exp, const view<T, 4>& out, std::int64_t first_query,
                      std::int64_t first_key, const attention_options& options) {
  constexpr const char* name = "attention_weights";
  check::device_type<T>(name, queue);
  detail::check_queries_and_keys(name, q, k);
  check::input(name, "log_sum_exp", log_sum_exp);
  detail::check_rows(name, "log_sum_exp", log_sum_exp, q);
  check::output(name, "out", out);
  for (int d : {0, 1}) check::same_extent(name, "q", q, d, "out", out, d);
  detail::check_tile(name, out, first_query, first_key, q.extent[2], k.extent[2]);
  detail::check_lengths(name, options, q);
}

/// Matrices that follow one another at equal distances, so that batch and heads are one dimension; or heads alone.
template <class T>
bool is_one_batch(const view<T, 4>& x) {
  return x.extent[0] == 1 || x.stride[0] == x.extent[1] * x.stride[1];
}

template <class T>
view<T, 3> matrices(const view<T, 4>& x, std::int64_t batch, std::int64_t count) {
  return {x.data + batch * x.stride[0], {count, x.extent[2], x.extent[3]}, {x.stride[1], x.stride[2], x.stride[3]}};
}

/// out = scale q k^T
template <class T>
std::vector<sycl::event> multiply(sycl::queue& queue, double scale, const view<const T, 4>& q,
                                  const view<const T, 4>& k, const view<T, 4>& out,
                                  const std::vector<sycl::event>& dependencies) {
  const bool at_once = is_one_batch(q) && is_one_batch(k) && is_one_batch(out);
  const std::int64_t calls = at_once ? 1 : q.extent[0], count = at_once ? q.extent[0] * q.extent[1] : q.extent[1];
  std::vector<sycl::event> products;
  for (std::int64_t batch = 0; batch < calls; ++batch) {
    products.push_back(gemm(queue, static_cast<T>(scale), matrices(q, batch, count),
                            transposed(matrices(k, batch, count)), T(0), matrices(out, batch, count), {},
                            dependencies));
  }
  return products;
}

template <class Shape, class In>
std::int64_t received_bytes(const view<const In, 4>& q, const view<const In, 4>& k) {
  detail::scratchpad_parts parts;
  parts.take<kernels::number_of<In>>(detail::panel_numbers(transposed(q), Shape::rows));
  parts.take<kernels::number_of<In>>(detail::panel_numbers(transposed(k), Shape::columns));
  return parts.bytes();
}

template <class Shape, class In, class T>
sycl::event receive(sycl::queue& queue, const view<const In, 4>& q, const view<const In, 4>& k,
                    const view<const T, 3>& log_sum_exp, const view<T, 3>& received, std::byte* scratchpad,
                    const attention_options& options, const std::vector<sycl::event>& dependencies) {
  detail::scratchpad_parts parts(scratchpad);
  T* query_panels = parts.take<T>(detail::panel_numbers(transposed(q), Shape::rows));
  T* key_panels = parts.take<T>(detail::panel_numbers(transposed(k), Shape::columns));
  const std::vector<sycl::event> packed{detail::pack_narrow<Shape>(queue, transposed(q), query_panels, dependencies),
                                        detail::pack_wide<Shape>(queue, transposed(k), key_panels, dependencies)};
  const std::int64_t panels =
      received.extent[0] * received.extent[1] * detail::ceil_div(received.extent[2], Shape::columns);
  const kernels::attention_received<T, Shape> kernel{query_panels,
                                                     key_panels,
                                                     log_sum_exp,
                                                     received,
                                                     detail::visibility_of(options, q.extent[2], k.extent[2]),
                                                     q.extent[3],
                                                     static_cast<T>(detail::scale_of(options, q.extent[3]))};
  return launch(queue, detail::groups_of(detail::ceil_div(panels, Shape::workers), Shape::work_items), 0, kernel,
                packed);
}

}  // namespace

template <class T>
sycl::event attention_weights(sycl::queue& queue, std::type_identity_t<view<const T, 4>> q,
                              std::type_identity_t<view<const T, 4>> k,
                              std::type_identity_t<view<const T, 3>> log_sum_exp, view<T, 4> out,
                              std::int64_t first_query, std::int64_t first_key, const attention_options& options,
                              const std::vector<sycl::event>& dependencies) {
  validate_weights(queue, q, k, log_sum_exp, out, first_query, first_key, options);
  if (out.empty()) return join(queue, dependencies);
  const std::vector<sycl::event> scores =
      multiply(queue, detail::scale_of(options, q.extent[3]), slice(q, 2, first_query, out.extent[2]),
               slice(k, 2, first_key, out.extent[3]), out, dependencies);
  const detail::team_shape shape = detail::choose_team_shape(queue, out.extent[3], detail::has_neighbours(out));
  return detail::with_team<sizeof(T)>(shape, [&]<int W, int Items>() {
    const std::int64_t rows = out.extent[0] * out.extent[1] * out.extent[2];
    const std::int64_t rows_per_group =
        detail::rows_per_group(queue, shape, rows, out.extent[3] * static_cast<std::int64_t>(sizeof(T)));
    const kernels::attention_exponentials<T, W, Items> kernel{
        out,       log_sum_exp,   detail::visibility_of(options, q.extent[2], k.extent[2]), k.extent[2], first_query,
        first_key, rows_per_group};
    return launch(queue, detail::groups_of(detail::ceil_div(rows, rows_per_group), Items),
                  kernels::team<Items>::local_bytes, kernel, scores);
  });
}

template <class In>
std::int64_t attention_received_scratchpad_size(const sycl::queue& queue, view<const In, 4> q, view<const In, 4> k) {
  return detail::with_weights_shape<kernels::number_of<In>>(queue,
                                                            [&]<class Shape>() { return received_bytes<Shape>(q, k); });
}

template <class In, class T>
sycl::event attention_received(sycl::queue& queue, view<const In, 4> q, view<const In, 4> k,
                               std::type_identity_t<view<const T, 3>> log_sum_exp, view<T, 3> received,
                               std::span<std::byte> scratchpad, const attention_options& options,
                               const std::vector<sycl::event>& dependencies) {
  constexpr const char* name = "attention_received";
  check::device_type<T>(name, queue);
  detail::check_queries_and_keys(name, q, k);
  check::input(name, "log_sum_exp", log_sum_exp);
  detail::check_rows(name, "log_sum_exp", log_sum_exp, q);
  check::output(name, "received", received);
  for (int d : {0, 1, 2}) check::same_extent(name, "k", k, d, "received", received, d);
  detail::check_lengths(name, options, q);
  check::scratchpad(name, scratchpad, attention_received_scratchpad_size<In>(queue, q, k));
  if (received.empty()) return join(queue, dependencies);
  return detail::with_weights_shape<T>(queue, [&]<class Shape>() {
    return receive<Shape>(queue, q, k, log_sum_exp, received, scratchpad.data(), options, dependencies);
  });
}

using events = std::vector<sycl::event>;
template sycl::event attention_weights<float>(sycl::queue&, view<const float, 4>, view<const float, 4>,
                                              view<const float, 3>, view<float, 4>, std::int64_t, std::int64_t,
                                              const attention_options&, const events&);
template sycl::event attention_weights<double>(sycl::queue&, view<const double, 4>, view<const double, 4>,
                                               view<const double, 3>, view<double, 4>, std::int64_t, std::int64_t,
                                               const attention_options&, const events&);

template std::int64_t attention_received_scratchpad_size(const sycl::queue&, view<const float, 4>,
                                                         view<const float, 4>);
template std::int64_t attention_received_scratchpad_size(const sycl::queue&, view<const double, 4>,
                                                         view<const double, 4>);
template std::int64_t attention_received_scratchpad_size(const sycl::queue&, view<const bfloat16, 4>,
                                                         view<const bfloat16, 4>);
template sycl::event attention_received<float, float>(sycl::queue&, view<const float, 4>, view<const float, 4>,
                                                      view<const float, 3>, view<float, 3>, std::span<std::byte>,
                                                      const attention_options&, const events&);
template sycl::event attention_received<double, double>(sycl::queue&, view<const double, 4>, view<const double, 4>,
                                                        view<const double, 3>, view<double, 3>, std::span<std::byte>,
                                                        const attention_options&, const events&);
template sycl::event attention_received<bfloat16, float>(sycl::queue&, view<const bfloat16, 4>, view<const bfloat16, 4>,
                                                         view<const float, 3>, view<float, 3>, std::span<std::byte>,
                                                         const attention_options&, const events&);

}  // namespace nullscope

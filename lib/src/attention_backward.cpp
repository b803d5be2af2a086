#include "attention_backward.hpp"

#include <nullscope/attention_backward.hpp>
#include <nullscope/elementwise.hpp>

#include "attention_common.hpp"
#include "attention_row_products.hpp"

namespace nullscope {
namespace {

constexpr const char* name = "attention_backward";

template <class In, class T>
void validate(const sycl::queue& queue, const attention_record<In, T>& forward, const view<const T, 4>& d_out,
              const attention_gradients<T>& gradients, const attention_options& options) {
  check::device_type<T>(name, queue);
  detail::check_queries_and_keys(name, forward.q, forward.k);
  check::input(name, "v", forward.v);
  for (int d : {0, 1, 2}) check::same_extent(name, "k", forward.k, d, "v", forward.v, d);
  detail::check_head_size(name, "v", forward.v);
  check::input(name, "log_sum_exp", forward.log_sum_exp);
  detail::check_rows(name, "log_sum_exp", forward.log_sum_exp, forward.q);
  check::input(name, "out", forward.out);
  for (int d : {0, 1, 2}) check::same_extent(name, "q", forward.q, d, "out", forward.out, d);
  check::same_extent(name, "v", forward.v, 3, "out", forward.out, 3);
  check::input(name, "d_out", d_out);
  check::same_shape(name, "out", forward.out, "d_out", d_out);
  check::output(name, "d_q", gradients.d_q);
  check::output(name, "d_k", gradients.d_k);
  check::output(name, "d_v", gradients.d_v);
  check::same_shape(name, "q", forward.q, "d_q", gradients.d_q);
  check::same_shape(name, "k", forward.k, "d_k", gradients.d_k);
  check::same_shape(name, "v", forward.v, "d_v", gradients.d_v);
  detail::check_lengths(name, options, forward.q);
}

/// Calls call.operator()<Shape>() with the layout for the queue's device.
template <class T, class Call>
auto with_shape(const sycl::queue& queue, Call call) {
  return detail::with_vector_bytes(detail::choose_attention_lanes(queue.get_device()), [&]<int Bytes>() {
    if constexpr (Bytes == 0) {
      return call.template operator()<detail::attention_work_items>();
    } else {
      return call.template operator()<typename detail::attention_vector_shapes<T, Bytes>::backward>();
    }
  });
}

struct extents {
  std::int64_t matrices, queries, keys, dk, dv;
};

template <class In>
extents extents_of(const view<const In, 4>& q, const view<const In, 4>& k, const view<const In, 4>& v) {
  return {q.extent[0] * q.extent[1], q.extent[2], k.extent[2], q.extent[3], v.extent[3]};
}

/// What stands in the scratchpad; see the kernel for the shapes.
template <class T, class Shape>
struct scratch_arrays {
  using kernel = kernels::attention_backward<T, Shape>;

  scratch_arrays(const extents& e, detail::scratchpad_parts& parts) {
    const std::int64_t queries = e.matrices * e.queries, keys = e.matrices * e.keys;
    const std::int64_t padded_queries = e.matrices * kernel::padded_rows(e.queries);
    const std::int64_t padded_keys = e.matrices * kernel::padded_rows(e.keys);
    const std::int64_t dk = kernel::padded_columns(e.dk), dv = kernel::padded_columns(e.dv);
    q_columns = parts.take<T>(padded_queries * e.dk);
    d_out_columns = parts.take<T>(padded_queries * e.dv);
    q_rows = parts.take<T>(queries * dk);
    d_out_rows = parts.take<T>(queries * dv);
    k_columns = parts.take<T>(e.matrices * kernel::padded_columns(e.keys) * e.dk);
    v_columns = parts.take<T>(e.matrices * kernel::padded_columns(e.keys) * e.dv);
    k_rows = parts.take<T>(keys * dk);
    d_q = parts.take<T>(padded_queries * dk);
    d_k = parts.take<T>(padded_keys * dk);
    d_v = parts.take<T>(padded_keys * dv);
    products = parts.take<T>(queries);
  }

  T *q_columns, *d_out_columns, *q_rows, *d_out_rows, *k_columns, *v_columns, *k_rows, *d_q, *d_k, *d_v, *products;
};

/// out (matrices * queries) = row sums of x * y
template <class T>
sycl::event multiply_rows(sycl::queue& queue, const view<const T, 4>& x, const view<const T, 4>& y, T* out,
                          const std::vector<sycl::event>& dependencies) {
  const bool neighbours = detail::has_neighbours(x) && detail::has_neighbours(y);
  const detail::team_shape shape = detail::choose_team_shape(queue, x.extent[3], neighbours);
  return detail::with_team<sizeof(T)>(shape, [&]<int W, int Items>() {
    const std::int64_t rows = x.extent[0] * x.extent[1] * x.extent[2];
    const std::int64_t rows_per_group =
        detail::rows_per_group(queue, shape, rows, 2 * x.extent[3] * static_cast<std::int64_t>(sizeof(T)));
    return launch(queue, detail::groups_of(detail::ceil_div(rows, rows_per_group), Items),
                  kernels::team<Items>::local_bytes,
                  kernels::attention_row_products<T, W, Items>{x, y, out, rows_per_group}, dependencies);
  });
}

/// Panels of queries in a block: as many as local memory holds, up to what stays in cache.
template <class T, class Shape>
std::int64_t panels_of_block(const sycl::queue& queue) {
  using kernel = kernels::attention_backward<T, Shape>;
  const device_properties& device = properties(queue.get_device());
  const std::int64_t available = device.usable_local_bytes();
  std::int64_t panels = std::max(8, Shape::workers);
  while (panels > Shape::workers && kernel::local_bytes(panels) > available) panels -= Shape::workers;
  if (kernel::local_bytes(panels) > available) {
    throw unsupported_device(fmt::format("{}: {} has {} usable bytes of local memory, {} are needed", name, device.name,
                                         available, kernel::local_bytes(panels)));
  }
  return panels;
}

/// Chunks of queries and of keys: enough that all compute units have the same to do, with one group a chunk and head.
std::int64_t chunks_for(const sycl::queue& queue, std::int64_t matrices, std::int64_t blocks) {
  const std::int64_t units = properties(queue.get_device()).compute_units;
  std::int64_t chunks = 1;
  while (chunks < blocks && matrices * chunks % units != 0 && matrices * chunks < 4 * units) ++chunks;
  return chunks;
}

/// to (batch, heads, tokens, d) = factor * gradient (matrices, rows, stride)
template <class T>
sycl::event write_gradient(sycl::queue& queue, T factor, const T* gradient, std::int64_t rows, std::int64_t stride,
                           const view<T, 4>& to, sycl::event ready) {
  const std::int64_t heads = to.extent[1], tokens = to.extent[2], d = to.extent[3];
  const bool at_once = to.extent[0] == 1 || to.stride[0] == heads * to.stride[1];
  const std::int64_t calls = at_once ? 1 : to.extent[0], count = at_once ? to.extent[0] * heads : heads;
  for (std::int64_t batch = 0; batch < calls; ++batch) {
    const view<const T, 3> from{
        gradient + batch * heads * rows * stride, {count, tokens, d}, {rows * stride, stride, 1}};
    const view<T, 3> part{
        to.data + batch * to.stride[0], {count, tokens, d}, {to.stride[1], to.stride[2], to.stride[3]}};
    ready = nullscope::scale<T, 3>(queue, factor, from, part, {ready});
  }
  return ready;
}

template <class Shape, class In, class T>
sycl::event run(sycl::queue& queue, const attention_record<In, T>& forward, const view<const T, 4>& d_out,
                const attention_gradients<T>& gradients, std::byte* scratchpad, const attention_options& options,
                const std::vector<sycl::event>& dependencies) {
  using kernel = kernels::attention_backward<T, Shape>;
  const extents e = extents_of(forward.q, forward.k, forward.v);
  detail::scratchpad_parts parts(scratchpad);
  const scratch_arrays<T, Shape> arrays(e, parts);
  const std::int64_t panels = panels_of_block<T, Shape>(queue);  // may throw: before anything is launched
  std::vector<sycl::event> ready{
      detail::pack_narrow<Shape>(queue, transposed(forward.q), arrays.q_columns, dependencies),
      detail::pack_narrow<Shape>(queue, transposed(d_out), arrays.d_out_columns, dependencies),
      detail::pack_wide<Shape>(queue, forward.q, arrays.q_rows, dependencies),
      detail::pack_wide<Shape>(queue, d_out, arrays.d_out_rows, dependencies),
      detail::pack_wide<Shape>(queue, transposed(forward.k), arrays.k_columns, dependencies),
      detail::pack_wide<Shape>(queue, transposed(forward.v), arrays.v_columns, dependencies),
      detail::pack_wide<Shape>(queue, forward.k, arrays.k_rows, dependencies),
      multiply_rows<T>(queue, forward.out, d_out, arrays.products, dependencies)};

  const std::int64_t blocks = std::min(detail::ceil_div(e.queries, panels * Shape::rows),
                                       detail::ceil_div(e.keys, std::int64_t{Shape::key_block}));
  const std::int64_t chunks = chunks_for(queue, e.matrices, blocks);
  const T scale = static_cast<T>(detail::scale_of(options, e.dk));
  for (std::int64_t phase = 0; phase < chunks; ++phase) {
    const kernel work{arrays.q_columns,
                      arrays.d_out_columns,
                      arrays.q_rows,
                      arrays.d_out_rows,
                      arrays.k_columns,
                      arrays.v_columns,
                      arrays.k_rows,
                      arrays.d_q,
                      arrays.d_k,
                      arrays.d_v,
                      forward.log_sum_exp,
                      arrays.products,
                      detail::visibility_of(options, e.queries, e.keys),
                      e.keys,
                      e.dk,
                      e.dv,
                      scale,
                      panels,
                      chunks,
                      phase};
    ready = {launch(queue, detail::groups_of(e.matrices * chunks, Shape::work_items),
                    static_cast<std::size_t>(kernel::local_bytes(panels)), work, ready)};
  }
  const std::int64_t query_rows = kernel::padded_rows(e.queries), key_rows = kernel::padded_rows(e.keys);
  const std::int64_t dk = kernel::padded_columns(e.dk), dv = kernel::padded_columns(e.dv);
  sycl::event written = write_gradient<T>(queue, scale, arrays.d_q, query_rows, dk, gradients.d_q, ready[0]);
  written = write_gradient<T>(queue, scale, arrays.d_k, key_rows, dk, gradients.d_k, written);
  return write_gradient<T>(queue, T(1), arrays.d_v, key_rows, dv, gradients.d_v, written);
}

}  // namespace

template <class In>
std::int64_t attention_backward_scratchpad_size(const sycl::queue& queue, view<const In, 4> q, view<const In, 4> k,
                                                view<const In, 4> v) {
  using number = kernels::number_of<In>;
  return with_shape<number>(queue, [&]<class Shape>() {
    detail::scratchpad_parts parts;
    scratch_arrays<number, Shape>(extents_of(q, k, v), parts);
    return parts.bytes();
  });
}

template <class In, class T>
sycl::event attention_backward(sycl::queue& queue, const attention_record<In, T>& forward, view<const T, 4> d_out,
                               const std::type_identity_t<attention_gradients<T>>& gradients,
                               std::span<std::byte> scratchpad, const attention_options& options,
                               const std::vector<sycl::event>& dependencies) {
  validate(queue, forward, d_out, gradients, options);
  check::scratchpad(name, scratchpad, attention_backward_scratchpad_size<In>(queue, forward.q, forward.k, forward.v));
  return with_shape<T>(queue, [&]<class Shape>() {
    return run<Shape>(queue, forward, d_out, gradients, scratchpad.data(), options, dependencies);
  });
}

using events = std::vector<sycl::event>;
template std::int64_t attention_backward_scratchpad_size(const sycl::queue&, view<const float, 4>, view<const float, 4>,
                                                         view<const float, 4>);
template std::int64_t attention_backward_scratchpad_size(const sycl::queue&, view<const double, 4>,
                                                         view<const double, 4>, view<const double, 4>);
template std::int64_t attention_backward_scratchpad_size(const sycl::queue&, view<const bfloat16, 4>,
                                                         view<const bfloat16, 4>, view<const bfloat16, 4>);
template sycl::event attention_backward(sycl::queue&, const attention_record<float, float>&, view<const float, 4>,
                                        const attention_gradients<float>&, std::span<std::byte>,
                                        const attention_options&, const events&);
template sycl::event attention_backward(sycl::queue&, const attention_record<double, double>&, view<const double, 4>,
                                        const attention_gradients<double>&, std::span<std::byte>,
                                        const attention_options&, const events&);
template sycl::event attention_backward(sycl::queue&, const attention_record<bfloat16, float>&, view<const float, 4>,
                                        const attention_gradients<float>&, std::span<std::byte>,
                                        const attention_options&, const events&);

}  // namespace nullscope

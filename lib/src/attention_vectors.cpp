#include "attention_vectors.hpp"

#include <nullscope/elementwise.hpp>
#include <type_traits>

#include "attention_common.hpp"
#include "attention_forward_vectors.hpp"

namespace nullscope::detail {

namespace {

template <class In, class T, int VectorBytes>
using kernel = kernels::attention_forward_vectors<In, T, typename attention_vector_shapes<T, VectorBytes>::forward>;

template <class Kernel>
bool fits(const device_properties& device, std::int64_t panels, std::int64_t dk, std::int64_t dv) {
  return Kernel::local_bytes(panels, dk, dv) <= device.usable_local_bytes();
}

/// The kernel reads numbers of type T that are neighbours in their row.
template <class In>
bool can_stay(const view<const In, 4>& x) {
  return !std::is_same_v<In, bfloat16> && (x.extent[3] <= 1 || x.stride[3] == 1);
}

/// One batch entry (heads, rows, columns) of x.
template <class T>
view<T, 3> entry_of(const view<T, 4>& x, std::int64_t batch) {
  return {
      x.data + batch * x.stride[0], {x.extent[1], x.extent[2], x.extent[3]}, {x.stride[1], x.stride[2], x.stride[3]}};
}

/// x (batch, heads, rows, columns), or a copy of it in `parts` as the kernel needs it.
template <class In, class T>
view<const T, 4> as_needed(sycl::queue& queue, const view<const In, 4>& x, scratchpad_parts& parts,
                           const std::vector<sycl::event>& dependencies, std::vector<sycl::event>& copied) {
  if constexpr (std::is_same_v<In, T>) {
    if (can_stay(x)) return x;
  }
  const auto copy_of_x = parts.take_array<T>(x.extent[0], x.extent[1], x.extent[2], x.extent[3]);
  for (std::int64_t batch = 0; batch < x.extent[0]; ++batch) {
    copied.push_back(copy(queue, entry_of(x, batch), entry_of(copy_of_x, batch), dependencies));
  }
  return copy_of_x;
}

/// Panels of queries that a work-group takes. More make better use of keys and values in cache; there should be enough
/// work-groups for compute units to end at about the same time.
template <class Kernel, class T>
std::int64_t panels_of_group(const device_properties& device, const view<T, 4>& out, std::int64_t dk) {
  constexpr std::int64_t most = 4, groups_of_unit = 64;
  const std::int64_t heads = out.extent[0] * out.extent[1], panels = ceil_div(out.extent[2], Kernel::width);
  std::int64_t count = 1;
  while (count < most && fits<Kernel>(device, count + 1, dk, out.extent[3]) &&
         heads * ceil_div(panels, count + 1) >= groups_of_unit * device.compute_units) {
    ++count;
  }
  return count;
}

template <class Kernel, class In, class T>
sycl::event run(sycl::queue& queue, const view<const In, 4>& q, const view<const In, 4>& k, const view<const In, 4>& v,
                const view<T, 4>& out, const attention_row_results<T>& row_results, std::byte* scratchpad,
                const attention_options& options, const std::vector<sycl::event>& dependencies) {
  scratchpad_parts parts(scratchpad);
  std::vector<sycl::event> ready = dependencies;
  const view<const T, 4> keys = as_needed<In, T>(queue, k, parts, dependencies, ready);
  const view<const T, 4> values = as_needed<In, T>(queue, v, parts, dependencies, ready);
  const std::int64_t panels = panels_of_group<Kernel>(properties(queue.get_device()), out, q.extent[3]);
  const std::int64_t query_blocks = ceil_div(q.extent[2], panels * Kernel::width);
  const Kernel kernel{q,
                      keys,
                      values,
                      out,
                      row_results.log_sum_exp,
                      row_results.sum_of_squares,
                      visibility_of(options, q.extent[2], k.extent[2]),
                      score_scale_of<T>(options, q.extent[3]),
                      panels,
                      query_blocks};
  return launch(queue, groups_of(q.extent[0] * q.extent[1] * query_blocks, 1),
                static_cast<std::size_t>(Kernel::local_bytes(panels, q.extent[3], out.extent[3])), kernel, ready);
}

}  // namespace

template <class T>
bool attention_vectors_serve(const sycl::queue& queue, std::int64_t dk, std::int64_t dv) {
  return with_vector_bytes(choose_attention_lanes(queue.get_device()), [&]<int Bytes>() {
    if constexpr (Bytes == 0) {
      return false;
    } else {
      return fits<kernel<T, T, Bytes>>(properties(queue.get_device()), 1, dk, dv);
    }
  });
}

template <class In>
std::int64_t attention_vectors_scratchpad_size(const view<const In, 4>& k, const view<const In, 4>& v) {
  scratchpad_parts parts;
  for (const auto& x : {k, v}) {
    if (!can_stay(x)) parts.take<kernels::number_of<In>>(x.size());
  }
  return parts.bytes();
}

template <class In, class T>
sycl::event attention_vectors(sycl::queue& queue, const view<const In, 4>& q, const view<const In, 4>& k,
                              const view<const In, 4>& v, const view<T, 4>& out,
                              const attention_row_results<T>& row_results, std::byte* scratchpad,
                              const attention_options& options, const std::vector<sycl::event>& dependencies) {
  if (choose_attention_lanes(queue.get_device()) == attention_lanes::vectors_512) {
    return run<kernel<In, T, 64>>(queue, q, k, v, out, row_results, scratchpad, options, dependencies);
  }
  return run<kernel<In, T, 32>>(queue, q, k, v, out, row_results, scratchpad, options, dependencies);
}

template bool attention_vectors_serve<float>(const sycl::queue&, std::int64_t, std::int64_t);
template bool attention_vectors_serve<double>(const sycl::queue&, std::int64_t, std::int64_t);
template std::int64_t attention_vectors_scratchpad_size(const view<const float, 4>&, const view<const float, 4>&);
template std::int64_t attention_vectors_scratchpad_size(const view<const double, 4>&, const view<const double, 4>&);
template std::int64_t attention_vectors_scratchpad_size(const view<const bfloat16, 4>&, const view<const bfloat16, 4>&);
template sycl::event attention_vectors(sycl::queue&, const view<const float, 4>&, const view<const float, 4>&,
                                       const view<const float, 4>&, const view<float, 4>&,
                                       const attention_row_results<float>&, std::byte*, const attention_options&,
                                       const std::vector<sycl::event>&);
template sycl::event attention_vectors(sycl::queue&, const view<const double, 4>&, const view<const double, 4>&,
                                       const view<const double, 4>&, const view<double, 4>&,
                                       const attention_row_results<double>&, std::byte*, const attention_options&,
                                       const std::vector<sycl::event>&);
template sycl::event attention_vectors(sycl::queue&, const view<const bfloat16, 4>&, const view<const bfloat16, 4>&,
                                       const view<const bfloat16, 4>&, const view<float, 4>&,
                                       const attention_row_results<float>&, std::byte*, const attention_options&,
                                       const std::vector<sycl::event>&);

}  // namespace nullscope::detail

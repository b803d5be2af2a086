#include <algorithm>
#include <nullscope/gemm.hpp>
#include <nullscope/launch.hpp>
#include <type_traits>

#include "batches.hpp"
#include "checks.hpp"
#include "gemm_joint_matrix_plan.hpp"
#include "gemm_paths.hpp"

namespace nullscope {
namespace {

constexpr const char* name = "gemm";

template <class In, class T>
void validate_shapes(const detail::gemm_call<In, T>& call) {
  check::same_extent(name, "a", call.a, 1, "c", call.c, 1);
  check::same_extent(name, "b", call.b, 2, "c", call.c, 2);
  check::same_extent(name, "a", call.a, 2, "b", call.b, 1);
  if (call.a.extent[0] != 1) check::same_extent(name, "a", call.a, 0, "c", call.c, 0);
  if (call.b.extent[0] != 1) check::same_extent(name, "b", call.b, 0, "c", call.c, 0);
}

/// One matrix for the whole batch becomes a batch with stride 0.
template <class T>
void repeat(view<const T, 3>& x, std::int64_t batch) {
  if (x.extent[0] == 1) x.stride[0] = 0;
  x.extent[0] = batch;
}

enum class route { onemkl, joint_matrix, tiled };

/// Whether our kernel is the faster one where oneMKL would serve too. Times of oneMKL by ours on Zen 3, f64 and f32:
/// 4096 x 512 by 512 x 64, alone or in a batch, 1.6 to 1.95 and 1.0 to 1.1; batches of 128 x 64 x 128 1.6 to 1.8 and
/// 1.4; of 1024 x 512 x 512 1.1 to 1.26 in f64; single products of all sides above 256 0.85 to 1.1.
template <class In, class T>
bool own_is_faster(const device_properties& device, const detail::gemm_call<In, T>& call) {
  if (device.kind != device_kind::cpu || device.has_512_bit_vectors()) return false;
  constexpr std::int64_t short_side = 128;
  return call.c.extent[0] > 1 || std::min({call.c.extent[1], call.c.extent[2], call.a.extent[2]}) <= short_side;
}

/// The way that a product of these shapes and strides takes. Throws if the caller asked for one that is closed.
template <class In, class T>
route choose_route(const sycl::queue& queue, const detail::gemm_call<In, T>& call, gemm_path path) {
  const device_properties& device = properties(queue.get_device());
  if (path != gemm_path::own) {
    const bool is_served = detail::onemkl_serves(queue.get_device());
    const bool is_wanted = path == gemm_path::onemkl || !own_is_faster(device, call);
    if (is_served && is_wanted && detail::onemkl_can_express(call)) return route::onemkl;
    if (path == gemm_path::onemkl && !is_served) {
      throw unsupported_device(fmt::format("{}: oneMKL does not serve {} in this build", name, device.name));
    }
    if (path == gemm_path::onemkl) {
      throw invalid_argument(
          fmt::format("{}: oneMKL needs unit stride in one direction of each matrix, and matrices "
                      "of c that follow each other; got {}, {}, {}",
                      name, check::describe("a", call.a), check::describe("b", call.b), check::describe("c", call.c)));
    }
  }
  if (std::is_same_v<In, bfloat16> && detail::gemm_joint_matrix_serves(device)) return route::joint_matrix;
  return route::tiled;
}

template <class In, class T>
std::int64_t scratchpad_size(const sycl::queue& queue, const detail::gemm_call<In, T>& call, route way) {
  if constexpr (std::is_same_v<In, bfloat16>) {
    if (way == route::joint_matrix && !call.c.empty() && call.a.extent[2] > 0) {
      return detail::gemm_joint_matrix_scratchpad_size(properties(queue.get_device()), call.a, call.b);
    }
  }
  return 0;
}

template <class In, class T>
sycl::event run(sycl::queue& queue, detail::gemm_call<In, T> call, std::span<std::byte> scratchpad,
                const std::vector<sycl::event>& dependencies, const gemm_options& options) {
  check::device_type<T>(name, queue);
  check::input(name, "a", call.a);
  check::input(name, "b", call.b);
  check::output(name, "c", call.c);
  validate_shapes(call);
  const route way = choose_route(queue, call, options.path);
  repeat(call.a, call.c.extent[0]);
  repeat(call.b, call.c.extent[0]);
  check::scratchpad(name, scratchpad, scratchpad_size(queue, call, way));

  if (call.c.empty()) return join(queue, dependencies);
  if (call.alpha == T(0) || call.a.extent[2] == 0) {  // beta c: the tiled kernel without a step along k
    call.a.extent[2] = call.b.extent[1] = 0;
    call.alpha = 0;  // infinity or NaN times nothing is nothing
    return detail::gemm_tiled(queue, call, detail::preferred_gemm_lanes(queue.get_device()), dependencies);
  }
  if (way == route::onemkl) return detail::gemm_onemkl(queue, call, dependencies);
  if constexpr (std::is_same_v<In, bfloat16>) {
    if (way == route::joint_matrix) {
      return detail::gemm_joint_matrix(queue, call.alpha, call.a, call.b, call.beta, call.c, scratchpad, dependencies);
    }
  }
  return detail::gemm_tiled(queue, call, detail::preferred_gemm_lanes(queue.get_device()), dependencies);
}

}  // namespace

sycl::event gemm(sycl::queue& queue, float alpha, view<const float, 3> a, view<const float, 3> b, float beta,
                 view<float, 3> c, const gemm_options& options, const std::vector<sycl::event>& dependencies) {
  return run(queue, detail::gemm_call<float, float>{alpha, a, b, beta, c}, {}, dependencies, options);
}

sycl::event gemm(sycl::queue& queue, double alpha, view<const double, 3> a, view<const double, 3> b, double beta,
                 view<double, 3> c, const gemm_options& options, const std::vector<sycl::event>& dependencies) {
  return run(queue, detail::gemm_call<double, double>{alpha, a, b, beta, c}, {}, dependencies, options);
}

sycl::event gemm(sycl::queue& queue, float alpha, view<const bfloat16, 3> a, view<const bfloat16, 3> b, float beta,
                 view<float, 3> c, std::span<std::byte> scratchpad, const gemm_options& options,
                 const std::vector<sycl::event>& dependencies) {
  return run(queue, detail::gemm_call<bfloat16, float>{alpha, a, b, beta, c}, scratchpad, dependencies, options);
}

std::int64_t gemm_scratchpad_size(const sycl::queue& queue, const view<const bfloat16, 3>& a,
                                  const view<const bfloat16, 3>& b, const view<float, 3>& c,
                                  const gemm_options& options) {
  detail::gemm_call<bfloat16, float> call{1, a, b, 0, c};
  check::layout(name, "a", a);
  check::layout(name, "b", b);
  check::layout(name, "c", c);
  check::distinct(name, "c", c);
  validate_shapes(call);
  const route way = choose_route(queue, call, options.path);
  repeat(call.a, c.extent[0]);
  repeat(call.b, c.extent[0]);
  return scratchpad_size(queue, call, way);
}

template <class T>
tensor<product_of<T>> matrix_product(sycl::queue& queue, const tensor<T>& a, const tensor<T>& b,
                                     const gemm_options& options) {
  using product = product_of<T>;
  const view<const T, 3> a_batch = detail::as_batch("matrix_product", "a", a),
                         b_batch = detail::as_batch("matrix_product", "b", b);
  const std::int64_t batch = a_batch.extent[0] == 1 ? b_batch.extent[0] : a_batch.extent[0];
  const std::int64_t m = a_batch.extent[1], n = b_batch.extent[2];
  const bool is_batch = a.shape().size() == 3 || b.shape().size() == 3;
  tensor<product> c(queue, is_batch ? std::vector{batch, m, n} : std::vector{m, n});
  const detail::gemm_call<T, product> call{1, a_batch, b_batch, 0, contiguous(c.data(), batch, m, n)};
  tensor<std::byte> scratchpad;
  if constexpr (std::is_same_v<T, bfloat16>) {
    scratchpad = tensor<std::byte>(queue, {gemm_scratchpad_size(queue, a_batch, b_batch, call.c, options)});
  }
  const detail::wait_on_error guard(queue);
  run(queue, call, scratchpad.span(), {}, options).wait_and_throw();
  return c;
}

template tensor<float> matrix_product(sycl::queue&, const tensor<float>&, const tensor<float>&, const gemm_options&);
template tensor<double> matrix_product(sycl::queue&, const tensor<double>&, const tensor<double>&, const gemm_options&);
template tensor<float> matrix_product(sycl::queue&, const tensor<bfloat16>&, const tensor<bfloat16>&,
                                      const gemm_options&);

}  // namespace nullscope

#include <nullscope/linalg/gemm.hpp>

#include <algorithm>
#include <type_traits>

#include "lib/src/core/batches.hpp"
#include "lib/src/core/checks.hpp"
#include "lib/src/linalg/gemm_joint_matrix_plan.hpp"
#include "lib/src/linalg/gemm_paths.hpp"
#include "lib/src/linalg/joint_matrix_check.hpp"
#include "lib/src/vendor/gemm.hpp"

namespace nullscope {
namespace {

constexpr const char* name = "gemm";

template <class In, class T>
void check_operands(const detail::gemm_call<In, T>& call) {
  check::input(name, "a", call.a);
  check::input(name, "b", call.b);
  check::output(name, "c", call.c);
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

enum class route { vendor, joint_matrix, tiled };

/// Whether our kernel is faster where the vendor's library could be used too: on CPUs with 256-bit vectors, for batches
/// and short sides.
template <class In, class T>
bool own_is_faster(const device_properties& device, const detail::gemm_call<In, T>& call) {
  if (device.kind != device_kind::cpu || device.has_512_bit_vectors()) return false;
  constexpr std::int64_t short_side = 128;
  return call.c.extent[0] > 1 || std::min({call.c.extent[1], call.c.extent[2], call.a.extent[2]}) <= short_side;
}

/// The route for a product of these shapes and strides. Throws if the caller asked for the vendor's library and it
/// cannot be used.
template <class In, class T>
route choose_route(const context& ctx, detail::gemm_library library, const detail::gemm_call<In, T>& call,
                   gemm_path path) {
  if (path != gemm_path::own) {
    const bool is_served = library != detail::gemm_library::none;
    const bool is_wanted = path == gemm_path::vendor || !own_is_faster(ctx.device(), call);
    if (is_served && is_wanted && detail::can_express(library, call)) return route::vendor;
    if (path == gemm_path::vendor && !is_served) {
      throw unsupported_device(fmt::format("{}: no vendor's library for {} is there", name, ctx.device().name));
    }
    if (path == gemm_path::vendor) {
      throw invalid_argument(fmt::format(
          "{}: {} needs unit stride in one direction of each matrix, and each matrix of c to end before the next one "
          "begins; got {}, {}, {}",
          name, to_string(library), check::describe("a", call.a), check::describe("b", call.b),
          check::describe("c", call.c)));
    }
  }
  if constexpr (std::is_same_v<In, bfloat16>) {
    if (ctx.layout().matrix_engine && detail::gemm_joint_matrix_serves(detail::tested_properties(ctx))) {
      return route::joint_matrix;
    }
  }
  return route::tiled;
}

template <class In, class T>
sycl::event multiply(context& ctx, const gemm_operands<In>& operands, const view<T, 3>& c, const gemm_options& options,
                     const events& dependencies) {
  check::device_type<T>(name, ctx);
  detail::gemm_call<In, T> call{static_cast<T>(options.alpha), operands.a, operands.b, static_cast<T>(options.beta), c};
  check_operands(call);
  const detail::gemm_library library = detail::gemm_library_of(ctx);
  const route chosen = choose_route(ctx, library, call, options.path);
  repeat(call.a, c.extent[0]);
  repeat(call.b, c.extent[0]);

  operation op(ctx, name, dependencies);
  if (c.empty()) return op.submit();
  if (call.alpha == T(0) || call.a.extent[2] == 0) {  // beta c: the tiled kernel without a step along k
    call.a.extent[2] = call.b.extent[1] = 0;
    call.alpha = 0;  // infinity or NaN times an empty sum is 0
    detail::gemm_tiled(op, call);
  } else if (chosen == route::vendor) {
    detail::gemm_vendor(op, library, call, options.tf32);
  } else if (chosen == route::tiled) {
    detail::gemm_tiled(op, call);
  } else if constexpr (std::is_same_v<In, bfloat16>) {
    detail::gemm_joint_matrix(op, call);
  }
  return op.submit();
}

}  // namespace

sycl::event gemm(context& ctx, const gemm_operands<float>& operands, view<float, 3> c, const gemm_options& options,
                 const events& dependencies) {
  return multiply(ctx, operands, c, options, dependencies);
}

sycl::event gemm(context& ctx, const gemm_operands<double>& operands, view<double, 3> c, const gemm_options& options,
                 const events& dependencies) {
  return multiply(ctx, operands, c, options, dependencies);
}

sycl::event gemm(context& ctx, const gemm_operands<bfloat16>& operands, view<float, 3> c, const gemm_options& options,
                 const events& dependencies) {
  return multiply(ctx, operands, c, options, dependencies);
}

template <class T>
tensor<product_of<T>> matrix_product(context& ctx, const tensor<T>& a, const tensor<T>& b,
                                     const gemm_options& options) {
  constexpr const char* function = "matrix_product";
  const view<const T, 3> left = detail::matrices_of(function, "a", a), right = detail::matrices_of(function, "b", b);
  check::same_extent(function, "a", left, 2, "b", right, 1);
  if (left.extent[0] != 1 && right.extent[0] != 1) check::same_extent(function, "a", left, 0, "b", right, 0);
  if (options.beta != 0) {
    throw invalid_argument(
        fmt::format("{}: beta is {}; it must be 0, as there is no c to add", function, options.beta));
  }
  const std::int64_t batch = left.extent[0] == 1 ? right.extent[0] : left.extent[0];
  const std::int64_t m = left.extent[1], n = right.extent[2];
  const bool is_batch = a.shape().size() == 3 || b.shape().size() == 3;
  tensor<product_of<T>> c(ctx, is_batch ? std::vector{batch, m, n} : std::vector{m, n});
  operation op(ctx, function);
  gemm(ctx, {left, right}, c, options);
  op.submit_and_wait();
  return c;
}

template tensor<float> matrix_product(context&, const tensor<float>&, const tensor<float>&, const gemm_options&);
template tensor<double> matrix_product(context&, const tensor<double>&, const tensor<double>&, const gemm_options&);
template tensor<float> matrix_product(context&, const tensor<bfloat16>&, const tensor<bfloat16>&, const gemm_options&);

}  // namespace nullscope

#include <algorithm>
#include <nullscope/linalg/cholesky.hpp>

#include "kernels/linalg/batch_cholesky.hpp"
#include "lib/src/core/checks.hpp"
#include "lib/src/linalg/back_substitution.hpp"
#include "lib/src/linalg/row_launch.hpp"

namespace nullscope {
namespace {

template <class T>
sycl::event factor(context& ctx, const view<const T, 3>& a, const cholesky_results<T>& results,
                   const events& dependencies) {
  constexpr const char* function = "cholesky";
  check::device_type<T>(function, ctx);
  check::input(function, "a", a);
  const std::int64_t batch = a.extent[0], n = a.extent[1];
  check::shape(function, "a", a, {batch, n, n});
  check::output(function, "l", results.l);
  check::shape(function, "l", results.l, {batch, n, n});
  check::output(function, "status", results.status);
  check::shape(function, "status", results.status, {batch});
  operation op(ctx, function, dependencies);
  if (batch == 0) return op.submit();
  const std::int64_t ld = detail::padded_row(std::max<std::int64_t>(n, 1));
  T* const memory = op.take_array<T>(batch, n + 2, ld).data;
  detail::dispatch_rows<T>(detail::choose_row_shape(ctx.layout(), n, true), [&]<int W, int Items>() {
    detail::launch_groups<Items>(op, batch,
                                 kernels::batch_cholesky<T, W, Items>{a, results.l, results.status, memory, ld});
  });
  return op.submit();
}

/// The same elements from the last one on.
template <class T>
view<T, 3> reversed(view<T, 3> x, int dimension) {
  x.data += (x.extent[dimension] - 1) * x.stride[dimension];
  x.stride[dimension] = -x.stride[dimension];
  return x;
}

template <class T>
sycl::event solve(context& ctx, const cholesky_system<T>& system, const view<T, 3>& x, const events& dependencies) {
  constexpr const char* function = "cholesky_solve";
  const auto& [l, b] = system;
  check::device_type<T>(function, ctx);
  check::input(function, "l", l);
  check::input(function, "b", b);
  const std::int64_t batch = l.extent[0], n = l.extent[1], k = b.extent[2];
  check::shape(function, "l", l, {batch, n, n});
  check::shape(function, "b", b, {batch, n, k});
  check::output(function, "x", x);
  check::shape(function, "x", x, {batch, n, k});
  operation op(ctx, function, dependencies);
  if (x.empty()) return op.submit();
  // l from its last row and column on is upper triangular
  detail::back_substitute<T>(op, reversed(reversed(l, 1), 2), reversed(b, 1), reversed(x, 1));
  detail::back_substitute<T>(op, transposed(l), x, x);
  return op.submit();
}

}  // namespace

sycl::event cholesky(context& ctx, view<const float, 3> a, const cholesky_results<float>& results,
                     const events& dependencies) {
  return factor(ctx, a, results, dependencies);
}
sycl::event cholesky(context& ctx, view<const double, 3> a, const cholesky_results<double>& results,
                     const events& dependencies) {
  return factor(ctx, a, results, dependencies);
}

sycl::event cholesky_solve(context& ctx, const cholesky_system<float>& system, view<float, 3> x,
                           const events& dependencies) {
  return solve(ctx, system, x, dependencies);
}
sycl::event cholesky_solve(context& ctx, const cholesky_system<double>& system, view<double, 3> x,
                           const events& dependencies) {
  return solve(ctx, system, x, dependencies);
}

}  // namespace nullscope

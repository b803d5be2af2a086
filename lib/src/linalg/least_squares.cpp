#include <cmath>
#include <limits>
#include <nullscope/linalg/gemm.hpp>
#include <nullscope/linalg/qr.hpp>
#include <nullscope/linalg/rows.hpp>

#include "kernels/linalg/least_squares.hpp"
#include "lib/src/core/checks.hpp"
#include "lib/src/core/ranges.hpp"
#include "lib/src/linalg/back_substitution.hpp"

namespace nullscope {
namespace {

constexpr const char* function = "least_squares";
constexpr std::int64_t items = 64;  // of a work-group whose work-items have one lane

/// The rows below a: their square is one unit of rounding of the mean squared singular value of a.
template <class T>
void append_ridge(operation& op, const view<const T, 3>& a, const view<T, 3>& rows) {
  const std::int64_t batch = a.extent[0], n = a.extent[2];
  const view<T, 2> of_rows = op.take_array<T>(batch, a.extent[1]);
  const view<T, 1> norm = op.take_array<T>(batch);
  row_reduce(op.ctx(), a, of_rows, row_reduction::norm);
  row_reduce(op.ctx(), view<const T, 3>(view<const T, 2>(of_rows)), view<T, 2>(norm), row_reduction::norm);
  const T share = std::sqrt(std::numeric_limits<T>::epsilon() / static_cast<T>(n));
  op.launch(detail::groups_of(detail::ceil_div(rows.size(), items), items), 0,
            kernels::ridge_rows<T>{norm, rows, share});
}

template <class T>
sycl::event check_and_run(context& ctx, const least_squares_operands<T>& operands, const view<T, 3>& x,
                          const events& dependencies) {
  const auto& [a, b] = operands;
  check::device_type<T>(function, ctx);
  check::input(function, "a", a);
  check::input(function, "b", b);
  const std::int64_t batch = a.extent[0], m = a.extent[1], n = a.extent[2], k = b.extent[2];
  check::same_extent(function, "a", a, 0, "b", b, 0);
  check::same_extent(function, "a", a, 1, "b", b, 1);
  if (n == 0) check::fail(function, "a", a, "has no columns");
  check::output(function, "x", x);
  check::shape(function, "x", x, {batch, n, k});
  operation op(ctx, function, dependencies);
  if (x.empty()) return op.submit();
  const view<T, 3> rows = op.take_array<T>(batch, m + n, n), r = op.take_array<T>(batch, n, n);
  copy(ctx, a, slice(rows, 1, 0, m));
  append_ridge<T>(op, a, slice(rows, 1, m, n));
  qr(ctx, view<const T, 3>(rows), qr_results<T>{.q = rows, .r = r});
  // (batch, n, m) (batch, m, k) -> (batch, n, k), solved in place
  const view<T, 3> c = op.take_array<T>(batch, n, k);
  gemm(ctx, gemm_operands<T>{transposed(slice(view<const T, 3>(rows), 1, 0, m)), b}, c);
  detail::back_substitute<T>(op, r, c, x);
  return op.submit();
}

}  // namespace

sycl::event least_squares(context& ctx, const least_squares_operands<float>& operands, view<float, 3> x,
                          const events& dependencies) {
  return check_and_run(ctx, operands, x, dependencies);
}
sycl::event least_squares(context& ctx, const least_squares_operands<double>& operands, view<double, 3> x,
                          const events& dependencies) {
  return check_and_run(ctx, operands, x, dependencies);
}

}  // namespace nullscope

#include <nullscope/null_space/simplex.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <nullscope/core/operation.hpp>
#include <nullscope/linalg/gemm.hpp>
#include <nullscope/null_space/null_space.hpp>

#include "kernels/null_space/simplex_check.hpp"
#include "kernels/null_space/simplex_rows.hpp"
#include "lib/src/core/checks.hpp"
#include "lib/src/core/ranges.hpp"
#include "lib/src/core/strides.hpp"
#include "lib/src/linalg/row_launch.hpp"

namespace nullscope {
namespace {

template <class T>
bool is_dense(const view<T, 4>& x) {
  const auto dense = contiguous(x.data, x.extent[0], x.extent[1], x.extent[2], x.extent[3]);
  return x.empty() || std::equal(dense.stride, dense.stride + 4, x.stride);
}

/// a (heads, rows, S), basis (heads, S, columns) and the alternatives (heads, alternatives, rows, S) agree.
template <class T, class Alternative>
void check_operands(const char* function, const context& ctx, const view<const T, 3>& a, const view<const T, 3>& basis,
                    const view<Alternative, 4>& out) {
  check::device_type<T>(function, ctx);
  check::input(function, "a", a);
  check::input(function, "basis", basis);
  check::input(function, "out", out);
  check::same_extent(function, "a", a, 0, "basis", basis, 0);
  check::same_extent(function, "a", a, 2, "basis", basis, 1);
  check::same_extent(function, "a", a, 0, "out", out, 0);
  check::same_extent(function, "a", a, 1, "out", out, 2);
  check::same_extent(function, "a", a, 2, "out", out, 3);
  if (!is_dense(out)) check::fail(function, "out", out, "is not densely packed");
}

/// Launches a kernel with one group per row of out (heads, alternatives, rows, S): call.operator()<W, Items>() makes
/// it.
template <class T, class Out, class Make>
void launch_rows(operation& op, const view<const T, 3>& a, const view<Out, 4>& out, Make make) {
  const detail::row_shape shape = detail::choose_row_shape(op.ctx().layout(), out.extent[3], detail::has_neighbours(a));
  detail::dispatch_rows<T>(shape, [&]<int W, int Items>() {
    detail::launch_groups<Items>(op, out.extent[0] * out.extent[1] * out.extent[2],
                                 make.template operator()<W, Items>());
  });
}

/// Directions in the complement of the basis, one for each row of out (heads, rows, S).
template <class T>
void draw_directions(operation& op, const simplex_operands<T>& operands, const view<T, 3>& out,
                     const simplex_options& options) {
  context& ctx = op.ctx();
  const view<const T, 3>& basis = operands.basis;
  if (options.draw == simplex_draw::projected) {
    random_null_space_rows(ctx, basis, out, options.stream);
    return;
  }
  constexpr double largest = 10;
  const std::int64_t heads = out.extent[0], rows = out.extent[1], tokens = out.extent[2];
  const auto null_basis = op.take_array<T>(heads, tokens, tokens);
  const auto coefficients = op.take_array<T>(heads, rows, tokens);
  // A basis with more columns than tokens ends with zero columns.
  const std::int64_t columns = std::min(tokens, basis.extent[2]);
  null_space_basis(ctx, null_space_operands<T>{slice(basis, 2, 0, columns), operands.rank}, null_basis);
  fill_uniform(ctx, contiguous(coefficients.data, coefficients.size()), options.stream,
               {.low = -largest, .high = largest});
  // coefficients (heads, rows, S) times the transposed null basis, whose columns beyond the dimension are zero
  gemm(ctx, gemm_operands<T>{coefficients, transposed(null_basis)}, out);
}

template <class T>
sycl::event find_alternatives(context& ctx, const simplex_operands<T>& operands, const simplex_results<T>& results,
                              const simplex_options& options, const events& dependencies) {
  constexpr const char* function = "simplex_alternatives";
  const view<const T, 3>& a = operands.a;
  const view<T, 4>& out = results.out;
  check_operands(function, ctx, a, operands.basis, out);
  check::input(function, "rank", operands.rank);
  check::output(function, "lambda", results.lambda);
  check::same_extent(function, "rank", operands.rank, 0, "a", a, 0);
  check::shape(function, "lambda", results.lambda, {out.extent[0], out.extent[1], out.extent[2]});
  if (!(options.share >= 0 && options.share <= 1)) {
    throw invalid_argument(
        fmt::format("{}: the share of lambda_max is {}, and must be in [0, 1]", function, options.share));
  }
  operation op(ctx, function, dependencies);
  if (results.lambda.empty()) return op.submit();
  // Rows without tokens have no directions, but a lambda.
  if (!out.empty()) draw_directions(op, operands, merge(out, 1), options);
  launch_rows(op, a, out, [&]<int W, int Items>() {
    return kernels::simplex_rows<T, W, Items>{a, operands.rank, out, results.lambda, static_cast<T>(options.share)};
  });
  return op.submit();
}

template <class T>
sycl::event find_worst(context& ctx, const alternatives<T>& operands, const view<simplex_check<T>, 2>& checks,
                       const events& dependencies) {
  static_assert(sizeof(simplex_check<T>) == 3 * sizeof(T), "the kernel sees three numbers per alternative");
  constexpr const char* function = "check_alternatives";
  const view<const T, 3>& a = operands.a;
  const view<const T, 4>& out = operands.out;
  check_operands(function, ctx, a, operands.basis, out);
  check::output(function, "checks", checks);
  check::shape(function, "checks", checks, {out.extent[0], out.extent[1]});
  operation op(ctx, function, dependencies);
  if (checks.empty()) return op.submit();
  const std::int64_t heads = out.extent[0], count = out.extent[1], rows = out.extent[2], tokens = out.extent[3];
  const auto difference = op.take_array<T>(heads, count, rows, tokens),
             figures = op.take_array<T>(heads, count, rows, 3),
             coefficients = op.take_array<T>(heads, count, rows, operands.basis.extent[2]);
  launch_rows(op, a, out, [&]<int W, int Items>() {
    return kernels::simplex_differences<T, W, Items>{a, out, difference, figures};
  });
  gemm(ctx, gemm_operands<T>{merge(difference, 1), operands.basis}, merge(coefficients, 1));
  const view<T, 3> worst{
      reinterpret_cast<T*>(checks.data), {heads, count, 3}, {3 * checks.stride[0], 3 * checks.stride[1], 1}};
  op.launch(detail::groups_of(checks.size(), 1), 0, kernels::simplex_worst<T>{figures, coefficients, worst});
  return op.submit();
}

}  // namespace

sycl::event simplex_alternatives(context& ctx, const simplex_operands<float>& operands,
                                 const simplex_results<float>& results, const simplex_options& options,
                                 const events& dependencies) {
  return find_alternatives(ctx, operands, results, options, dependencies);
}
sycl::event simplex_alternatives(context& ctx, const simplex_operands<double>& operands,
                                 const simplex_results<double>& results, const simplex_options& options,
                                 const events& dependencies) {
  return find_alternatives(ctx, operands, results, options, dependencies);
}

sycl::event check_alternatives(context& ctx, const alternatives<float>& operands, view<simplex_check<float>, 2> checks,
                               const events& dependencies) {
  return find_worst(ctx, operands, checks, dependencies);
}
sycl::event check_alternatives(context& ctx, const alternatives<double>& operands,
                               view<simplex_check<double>, 2> checks, const events& dependencies) {
  return find_worst(ctx, operands, checks, dependencies);
}

}  // namespace nullscope

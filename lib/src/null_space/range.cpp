#include <algorithm>
#include <nullscope/core/operation.hpp>
#include <nullscope/linalg/gemm.hpp>
#include <nullscope/linalg/qr.hpp>
#include <nullscope/linalg/svd.hpp>
#include <nullscope/null_space/null_space.hpp>

#include "kernels/null_space/columns.hpp"
#include "lib/src/core/checks.hpp"
#include "lib/src/core/ranges.hpp"
#include "lib/src/linalg/svd_paths.hpp"
#include "lib/src/null_space/tolerance.hpp"

namespace nullscope {
namespace {

constexpr const char* function = "range_basis";
constexpr std::int64_t items = 64;  // of a work-group of the small kernels here

template <class T>
void check_range(const context& ctx, const head_values<T>& operands, const range_results<T>& results,
                 const rank_tolerance& tolerance) {
  const auto& [v, h] = operands;
  check::device_type<T>(function, ctx);
  check::input(function, "v", v);
  std::int64_t columns = std::min(v.extent[1], v.extent[2]);
  if (!h.is_absent()) {
    check::input(function, "h", h);
    check::same_extent(function, "v", v, 0, "h", h, 0);
    check::same_extent(function, "v", v, 2, "h", h, 1);
    columns = std::min(columns, h.extent[2]);
  }
  const std::int64_t batch = v.extent[0];
  check::output(function, "u", results.u);
  check::output(function, "s", results.s);
  check::output(function, "rank", results.rank);
  check::output(function, "status", results.status);
  check::shape(function, "u", results.u, {batch, v.extent[1], columns});
  check::shape(function, "s", results.s, {batch, columns});
  check::shape(function, "rank", results.rank, {batch});
  check::shape(function, "status", results.status, {batch});
  detail::check_tolerance(function, tolerance);
}

/// A small matrix with the singular values of T, whose left singular vectors times q are those of T.
template <class T>
struct small_problem {
  view<const T, 3> matrix;  // (batch, rows, columns), columns <= rows
  view<const T, 3> q = {};  // (batch, S, rows); absent: the matrix is T itself, or its triangle
};

template <class T>
small_problem<T> reduce(operation& op, const head_values<T>& operands) {
  const auto& [v, h] = operands;
  context& ctx = op.ctx();
  const std::int64_t batch = v.extent[0], tokens = v.extent[1], value_width = v.extent[2];
  const std::int64_t rows = std::min(tokens, value_width);
  small_problem<T> problem{v};
  if (!h.is_absent() || tokens > value_width) {
    const auto q = op.take_array<T>(batch, tokens, rows), r = op.take_array<T>(batch, rows, value_width);
    qr(ctx, v, qr_results<T>{.q = q, .r = r});
    problem = {r, q};
  }
  if (!h.is_absent()) {
    // h^T (B,d,d_v) r^T (B,d_v,rows) -> (R H)^T (B,d,rows), row-major: the QR below is fastest on that
    const auto product = op.take_array<T>(batch, h.extent[2], rows);
    gemm(ctx, gemm_operands<T>{transposed(h), transposed(problem.matrix)}, product);
    problem.matrix = transposed(product);
  }
  if (problem.matrix.extent[2] > rows) {  // M = R^T Q^T with M^T = Q R
    const auto triangle = op.take_array<T>(batch, rows, rows);
    qr(ctx, transposed(problem.matrix), qr_results<T>{.r = triangle});
    problem.matrix = transposed(triangle);
  }
  return problem;
}

template <class T>
sycl::event find_range(context& ctx, const head_values<T>& operands, const range_results<T>& results,
                       const rank_tolerance& tolerance, const events& dependencies) {
  check_range(ctx, operands, results, tolerance);
  const auto& [u, s, rank, status] = results;
  operation op(ctx, function, dependencies);
  if (u.empty()) {
    op.launch(detail::groups_of(detail::ceil_div(rank.extent[0], items), items), 0, kernels::no_columns{rank, status});
    return op.submit();
  }
  const small_problem<T> problem = reduce(op, operands);
  const std::int64_t batch = u.extent[0], rows = problem.matrix.extent[1], columns = u.extent[2];
  const view<T, 3> vectors = problem.q.is_absent() ? u : op.take_array<T>(batch, rows, columns);
  svd(ctx, problem.matrix,
      svd_results<T>{.s = s, .u = vectors, .vt = op.take_array<T>(batch, columns, columns), .status = status});
  // The default is that of T, not that of the small matrix.
  const std::int64_t model_width = operands.h.is_absent() ? operands.v.extent[2] : operands.h.extent[2];
  detail::rank_of_decomposed(ctx, s, status, rank,
                             {columns, columns, detail::with_default<T>(tolerance, u.extent[1], model_width)});
  op.launch(detail::groups_of(detail::ceil_div(batch * rows, items), items), 0,
            kernels::keep_first_columns<T>{vectors, rank});
  if (!problem.q.is_absent()) gemm(ctx, gemm_operands<T>{problem.q, vectors}, u);
  return op.submit();
}

template <class T>
sycl::event run_reduce_projection(context& ctx, const view<const T, 3>& h, const view<T, 3>& reduced,
                                  const events& dependencies) {
  constexpr const char* name = "reduce_projection";
  check::device_type<T>(name, ctx);
  check::input(name, "h", h);
  check::output(name, "reduced", reduced);
  check::shape(name, "reduced", reduced, {h.extent[0], h.extent[1], h.extent[1]});
  if (h.extent[2] < h.extent[1]) check::fail(name, "h", h, "has fewer columns than rows");
  operation op(ctx, name, dependencies);
  // h^T (B,d,d_v) = Q R, so h h^T = R^T R
  qr(ctx, transposed(h), qr_results<T>{.r = transposed(reduced)});
  return op.submit();
}

}  // namespace

sycl::event range_basis(context& ctx, const head_values<float>& operands, const range_results<float>& results,
                        const rank_tolerance& tolerance, const events& dependencies) {
  return find_range(ctx, operands, results, tolerance, dependencies);
}
sycl::event range_basis(context& ctx, const head_values<double>& operands, const range_results<double>& results,
                        const rank_tolerance& tolerance, const events& dependencies) {
  return find_range(ctx, operands, results, tolerance, dependencies);
}

sycl::event reduce_projection(context& ctx, view<const float, 3> h, view<float, 3> reduced,
                              const events& dependencies) {
  return run_reduce_projection(ctx, h, reduced, dependencies);
}
sycl::event reduce_projection(context& ctx, view<const double, 3> h, view<double, 3> reduced,
                              const events& dependencies) {
  return run_reduce_projection(ctx, h, reduced, dependencies);
}

}  // namespace nullscope

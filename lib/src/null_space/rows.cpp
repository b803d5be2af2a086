#include <algorithm>
#include <cmath>
#include <limits>
#include <nullscope/core/operation.hpp>
#include <nullscope/linalg/gemm.hpp>
#include <nullscope/linalg/rows.hpp>
#include <nullscope/null_space/null_space.hpp>

#include "kernels/null_space/ones.hpp"
#include "lib/src/core/checks.hpp"
#include "lib/src/core/ranges.hpp"
#include "lib/src/null_space/tolerance.hpp"

namespace nullscope {
namespace {

/// The relative tolerance of the kernel: what was asked for, but at least what rounding leaves.
template <class T>
T tolerance_of_ones(const rank_tolerance& tolerance, std::int64_t tokens, std::int64_t columns) {
  constexpr double epsilon = static_cast<double>(std::numeric_limits<T>::epsilon());
  const double length = std::sqrt(static_cast<double>(std::max<std::int64_t>(tokens, 1)));  // of the vector of ones
  // Rounding leaves up to 0.3 sqrt(columns) eps of a vector in the span; see docs/tuning.md.
  const double rounding = 2 * std::sqrt(static_cast<double>(columns)) * epsilon;
  const double relative = detail::with_default<T>(tolerance, tokens, columns).relative;
  constexpr double most = static_cast<double>(std::numeric_limits<T>::max());
  return static_cast<T>(std::min(most, std::max({relative, rounding, tolerance.absolute / length})));
}

template <class T>
sycl::event append(context& ctx, const view<const std::int64_t, 1>& rank, const with_ones_results<T>& results,
                   const rank_tolerance& tolerance, const events& dependencies) {
  constexpr const char* function = "append_ones";
  const auto& [basis, rank_with_ones] = results;
  check::device_type<T>(function, ctx);
  check::output(function, "basis", basis);
  check::input(function, "rank", rank);
  check::output(function, "rank_with_ones", rank_with_ones);
  check::same_extent(function, "rank", rank, 0, "basis", basis, 0);
  check::same_extent(function, "rank_with_ones", rank_with_ones, 0, "basis", basis, 0);
  if (basis.extent[2] == 0 && basis.extent[1] > 0) check::fail(function, "basis", basis, "has no column for 1");
  detail::check_tolerance(function, tolerance);
  const std::int64_t batch = basis.extent[0], tokens = basis.extent[1];
  operation op(ctx, function, dependencies);
  const auto rest = op.take_array<T>(batch, tokens), coefficients = op.take_array<T>(batch, tokens);
  constexpr int items = 64;
  const kernels::append_ones<T, items> kernel{basis,
                                              rank,
                                              rank_with_ones,
                                              rest.data,
                                              coefficients.data,
                                              tolerance_of_ones<T>(tolerance, tokens, basis.extent[2])};
  op.launch(detail::groups_of(batch, items), kernels::group<items>::local_bytes, kernel);
  return op.submit();
}

/// out = x - x U U^T in place; coefficients (batch, rows, k) is workspace.
template <class T>
void remove_range(context& ctx, const view<const T, 3>& u, const view<T, 3>& out, const view<T, 3>& coefficients) {
  gemm(ctx, gemm_operands<T>{out, u}, coefficients);
  gemm(ctx, gemm_operands<T>{coefficients, transposed(u)}, out, {.alpha = -1, .beta = 1});
}

/// The result is the operand: the same memory, extents and strides.
template <class T>
bool same_view(const view<const T, 3>& x, const view<T, 3>& out) {
  return x.data == out.data && std::equal(x.extent, x.extent + 3, out.extent) &&
         std::equal(x.stride, x.stride + 3, out.stride);
}

template <class T>
sycl::event project_rows(context& ctx, const projection_operands<T>& operands, const view<T, 3>& out, row_part part,
                         const events& dependencies) {
  constexpr const char* function = "project";
  const auto& [x, u] = operands;
  check::device_type<T>(function, ctx);
  check::input(function, "x", x);
  check::input(function, "u", u);
  check::output(function, "out", out);
  check::same_shape(function, "out", out, "x", x);
  check::same_extent(function, "u", u, 0, "x", x, 0);
  check::same_extent(function, "u", u, 1, "x", x, 2);
  operation op(ctx, function, dependencies);
  if (x.empty()) return op.submit();
  const auto coefficients = op.take_array<T>(x.extent[0], x.extent[1], u.extent[2]);
  if (part == row_part::range) {
    gemm(ctx, gemm_operands<T>{x, u}, coefficients);
    gemm(ctx, gemm_operands<T>{coefficients, transposed(u)}, out);
    return op.submit();
  }
  if (!same_view(x, out)) copy(ctx, x, out);
  remove_range(ctx, u, out, coefficients);
  return op.submit();
}

template <class T>
sycl::event draw_rows(context& ctx, const view<const T, 3>& u, const view<T, 3>& out, random_stream stream,
                      const events& dependencies) {
  constexpr const char* function = "random_null_space_rows";
  check::device_type<T>(function, ctx);
  check::input(function, "u", u);
  check::output(function, "out", out);
  check::same_extent(function, "u", u, 0, "out", out, 0);
  check::same_extent(function, "u", u, 1, "out", out, 2);
  const auto dense = contiguous(out.data, out.extent[0], out.extent[1], out.extent[2]);
  if (!std::equal(dense.stride, dense.stride + 3, out.stride) && !out.empty()) {
    check::fail(function, "out", out, "is not densely packed");
  }
  operation op(ctx, function, dependencies);
  if (out.empty()) return op.submit();
  const auto coefficients = op.take_array<T>(out.extent[0], out.extent[1], u.extent[2]);
  fill_normal(ctx, contiguous(out.data, out.size()), stream);
  for (int pass = 0; pass < 2; ++pass) remove_range(ctx, u, out, coefficients);
  return op.submit();
}

}  // namespace

sycl::event append_ones(context& ctx, view<const std::int64_t, 1> rank, const with_ones_results<float>& results,
                        const rank_tolerance& tolerance, const events& dependencies) {
  return append(ctx, rank, results, tolerance, dependencies);
}
sycl::event append_ones(context& ctx, view<const std::int64_t, 1> rank, const with_ones_results<double>& results,
                        const rank_tolerance& tolerance, const events& dependencies) {
  return append(ctx, rank, results, tolerance, dependencies);
}

sycl::event project(context& ctx, const projection_operands<float>& operands, view<float, 3> out, row_part part,
                    const events& dependencies) {
  return project_rows(ctx, operands, out, part, dependencies);
}
sycl::event project(context& ctx, const projection_operands<double>& operands, view<double, 3> out, row_part part,
                    const events& dependencies) {
  return project_rows(ctx, operands, out, part, dependencies);
}

sycl::event random_null_space_rows(context& ctx, view<const float, 3> u, view<float, 3> out, random_stream stream,
                                   const events& dependencies) {
  return draw_rows(ctx, u, out, stream, dependencies);
}
sycl::event random_null_space_rows(context& ctx, view<const double, 3> u, view<double, 3> out, random_stream stream,
                                   const events& dependencies) {
  return draw_rows(ctx, u, out, stream, dependencies);
}

}  // namespace nullscope

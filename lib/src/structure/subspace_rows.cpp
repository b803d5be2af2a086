#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nullscope/linalg/gemm.hpp>
#include <nullscope/linalg/rows.hpp>
#include <nullscope/structure/task_subspace.hpp>

#include "lib/src/core/batches.hpp"
#include "lib/src/core/checks.hpp"
#include "lib/src/null_space/tolerance.hpp"

namespace nullscope {
namespace {

template <class T>
void check_basis(const char* function, const context& ctx, const view<const T, 3>& basis) {
  check::device_type<T>(function, ctx);
  check::input(function, "basis", basis);
}

template <class T>
sycl::event distance(context& ctx, const subspace_distance_operands<T>& operands, const view<T, 1>& out,
                     const events& dependencies) {
  constexpr const char* function = "subspace_distance";
  const auto& [a, b, basis] = operands;
  check_basis(function, ctx, basis);
  check::input(function, "a", a);
  check::input(function, "b", b);
  check::same_shape(function, "b", b, "a", a);
  check::same_extent(function, "basis", basis, 0, "a", a, 0);
  check::same_extent(function, "basis", basis, 1, "a", a, 2);
  check::output(function, "out", out);
  check::shape(function, "out", out, {a.extent[0]});
  const std::int64_t batch = a.extent[0], rows = a.extent[1], k = basis.extent[2];
  operation op(ctx, function, dependencies);
  const auto difference = op.take_array<T>(batch, rows, a.extent[2]), coordinates = op.take_array<T>(batch, rows, k);
  axpby(ctx, two_operands<T>{a, b}, difference, {.alpha = 1, .beta = -1});
  gemm(ctx, gemm_operands<T>{difference, basis}, coordinates);  // |D U U^T| = |D U|
  row_reduce(ctx, view<const T, 3>(contiguous<const T>(coordinates.data, 1, batch, rows * k)), out,
             row_reduction::norm);
  return op.submit();
}

template <class T>
sycl::event find_switched_off(context& ctx, const switched_off_operands<T>& operands,
                              const switched_off_results<T>& results, const rank_tolerance& tolerance,
                              const events& dependencies) {
  constexpr const char* function = "switched_off";
  const auto& [basis, v, h] = operands;
  const auto& [u, dimension, status] = results;
  check_basis(function, ctx, basis);
  check::input(function, "v", v);
  check::same_extent(function, "v", v, 0, "basis", basis, 0);
  if (v.extent[1] > basis.extent[1])
    check::fail(function, "v", v, fmt::format("has more than {} rows", basis.extent[1]));
  const std::int64_t heads = basis.extent[0], k = basis.extent[2];
  std::int64_t columns = std::min(k, v.extent[2]);
  if (!h.is_absent()) {
    check::input(function, "h", h);
    check::same_extent(function, "h", h, 0, "v", v, 0);
    check::same_extent(function, "h", h, 1, "v", v, 2);
    columns = std::min(columns, h.extent[2]);
  }
  check::output(function, "u", u);
  check::same_shape(function, "u", u, "basis", basis);
  check::output(function, "dimension", dimension);
  check::shape(function, "dimension", dimension, {heads});
  check::output(function, "status", status);
  check::shape(function, "status", status, {heads});
  detail::check_tolerance(function, tolerance);

  operation op(ctx, function, dependencies);
  // In the coordinates of R: T is U^T v h (B,k,d), and its range W (B,k,columns)
  const auto values = op.take_array<T>(heads, k, v.extent[2]), range = op.take_array<T>(heads, k, columns);
  gemm(ctx, gemm_operands<T>{transposed(slice(basis, 1, 0, v.extent[1])), v}, values);
  range_basis(ctx, head_values<T>{values, h},
              range_results<T>{range, op.take_array<T>(heads, columns), op.take_array<std::int64_t>(heads),
                               op.take_array<std::int32_t>(heads)},
              tolerance);
  // The projector I - W W^T within R: its singular values are 1 and 0. U^T U is the identity where U has no zeros.
  const auto projector = op.take_array<T>(heads, k, k), rest = op.take_array<T>(heads, k, k);
  gemm(ctx, gemm_operands<T>{transposed(basis), basis}, projector);
  gemm(ctx, gemm_operands<T>{range, transposed(range)}, projector, {.alpha = -1, .beta = 1});
  range_basis(ctx, head_values<T>{view<const T, 3>(projector)},
              range_results<T>{rest, op.take_array<T>(heads, k), dimension, status}, {.relative = 0, .absolute = 0.5});
  if (!u.empty()) gemm(ctx, gemm_operands<T>{basis, rest}, u);
  return op.submit();
}

}  // namespace

sycl::event subspace_distance(context& ctx, const subspace_distance_operands<float>& operands, view<float, 1> out,
                              const events& dependencies) {
  return distance(ctx, operands, out, dependencies);
}
sycl::event subspace_distance(context& ctx, const subspace_distance_operands<double>& operands, view<double, 1> out,
                              const events& dependencies) {
  return distance(ctx, operands, out, dependencies);
}

sycl::event switched_off(context& ctx, const switched_off_operands<float>& operands,
                         const switched_off_results<float>& results, const rank_tolerance& tolerance,
                         const events& dependencies) {
  return find_switched_off(ctx, operands, results, tolerance, dependencies);
}
sycl::event switched_off(context& ctx, const switched_off_operands<double>& operands,
                         const switched_off_results<double>& results, const rank_tolerance& tolerance,
                         const events& dependencies) {
  return find_switched_off(ctx, operands, results, tolerance, dependencies);
}

template <class T>
std::vector<bool> equivalent_in(context& ctx, const tensor<T>& a, const tensor<T>& b, const tensor<T>& basis,
                                const rank_tolerance& tolerance) {
  constexpr const char* function = "equivalent_in";
  const view<const T, 3> left = detail::matrices_of(function, "a", a), right = detail::matrices_of(function, "b", b);
  const view<const T, 3> space = detail::matrices_of(function, "basis", basis);
  detail::check_tolerance(function, tolerance);
  const std::int64_t batch = left.extent[0], entries = left.extent[1] * left.extent[2];
  tensor<T> numbers(ctx, {3, batch});
  const view<T, 2> results = numbers;
  operation op(ctx, function);
  subspace_distance(ctx, subspace_distance_operands<T>{left, right, space}, select(results, 0, 0));
  row_reduce(ctx, view<const T, 3>(contiguous(left.data, 1, batch, entries)), select(results, 0, 1),
             row_reduction::norm);
  row_reduce(ctx, view<const T, 3>(contiguous(right.data, 1, batch, entries)), select(results, 0, 2),
             row_reduction::norm);
  op.submit_and_wait();
  constexpr double epsilon = static_cast<double>(std::numeric_limits<T>::epsilon());
  const double relative =
      tolerance.relative < 0 ? 10 * static_cast<double>(left.extent[2]) * epsilon : tolerance.relative;
  const std::vector<T> host = numbers.to_host();
  std::vector<bool> equivalent;
  for (std::size_t i = 0, n = static_cast<std::size_t>(batch); i < n; ++i) {
    const double size = static_cast<double>(std::max(host[n + i], host[2 * n + i]));
    equivalent.push_back(static_cast<double>(host[i]) <= std::max(relative * size, tolerance.absolute));
  }
  return equivalent;
}

template std::vector<bool> equivalent_in(context&, const tensor<float>&, const tensor<float>&, const tensor<float>&,
                                         const rank_tolerance&);
template std::vector<bool> equivalent_in(context&, const tensor<double>&, const tensor<double>&, const tensor<double>&,
                                         const rank_tolerance&);

}  // namespace nullscope

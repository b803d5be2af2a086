#include <algorithm>
#include <cmath>
#include <limits>
#include <nullscope/gemm.hpp>
#include <nullscope/launch.hpp>
#include <nullscope/null_space.hpp>

#include "checks.hpp"
#include "null_space_columns.hpp"
#include "null_space_ones.hpp"
#include "scratchpad.hpp"
#include "team_shape.hpp"

namespace nullscope {
namespace {

/// out = that part of out, in place; coefficients (B,rows,k).
template <class T>
sycl::event project_in_place(sycl::queue& queue, const view<const T, 3>& u, const view<T, 3>& out,
                             const view<T, 3>& coefficients, const std::vector<sycl::event>& dependencies) {
  const sycl::event multiplied = gemm(queue, T(1), out, u, T(0), coefficients, {}, dependencies);
  return gemm(queue, T(-1), coefficients, transposed(u), T(1), out, {}, {multiplied});
}

/// Where out is x, they agree in everything; otherwise they may not share memory.
template <class T>
bool same_view(const view<const T, 3>& x, const view<T, 3>& out) {
  return x.data == out.data && std::equal(x.extent, x.extent + 3, out.extent) &&
         std::equal(x.stride, x.stride + 3, out.stride);
}

}  // namespace

template <class T>
std::int64_t append_ones_scratchpad_size(std::int64_t batch, std::int64_t tokens) {
  check::not_negative("append_ones_scratchpad_size", {batch, tokens});
  detail::scratchpad_parts parts;
  parts.take<T>(batch * tokens);
  parts.take<T>(batch * tokens);
  return parts.bytes();
}

template <class T>
sycl::event append_ones(sycl::queue& queue, view<T, 3> basis, view<const std::int64_t, 1> rank,
                        view<std::int64_t, 1> rank_with_ones, std::span<std::byte> scratchpad,
                        double relative_tolerance, const std::vector<sycl::event>& dependencies) {
  check::device_type<T>("append_ones", queue);
  check::output("append_ones", "basis", basis);
  check::input("append_ones", "rank", rank);
  check::output("append_ones", "rank_with_ones", rank_with_ones);
  check::same_extent("append_ones", "rank", rank, 0, "basis", basis, 0);
  check::same_extent("append_ones", "rank_with_ones", rank_with_ones, 0, "basis", basis, 0);
  if (basis.extent[2] == 0 && basis.extent[1] > 0) check::fail("append_ones", "basis", basis, "has no column for 1");
  if (relative_tolerance != relative_tolerance) throw invalid_argument("append_ones: the tolerance is NaN");
  const std::int64_t batch = basis.extent[0], tokens = basis.extent[1];
  check::scratchpad("append_ones", scratchpad, append_ones_scratchpad_size<T>(batch, tokens));
  constexpr double epsilon = static_cast<double>(std::numeric_limits<T>::epsilon());
  const double asked =
      relative_tolerance >= 0 ? relative_tolerance : static_cast<double>(std::max(tokens, basis.extent[2])) * epsilon;
  // Of a vector in the span rounding leaves up to 0.3 sqrt(columns) eps, as measured, with random bases of 2 to 513.
  const double rounding = 2 * std::sqrt(static_cast<double>(basis.extent[2])) * epsilon;
  constexpr std::int64_t items = 64;
  detail::scratchpad_parts parts(scratchpad.data());
  T* const rest = parts.take<T>(batch * tokens);
  T* const coefficients = parts.take<T>(batch * tokens);
  const kernels::append_ones<T> kernel{basis, rank,         rank_with_ones,
                                       rest,  coefficients, static_cast<T>(std::max(asked, rounding))};
  return launch(queue, detail::groups_of(batch, items), static_cast<std::size_t>(kernel.local_bytes(items)), kernel,
                dependencies);
}

template <class T>
std::int64_t project_scratchpad_size(std::int64_t batch, std::int64_t rows, std::int64_t columns) {
  check::not_negative("project_scratchpad_size", {batch, rows, columns});
  detail::scratchpad_parts parts;
  parts.take_array<T>(batch, rows, columns);
  return parts.bytes();
}

template <class T>
sycl::event project(sycl::queue& queue, row_part part, std::type_identity_t<view<const T, 3>> x,
                    std::type_identity_t<view<const T, 3>> u, view<T, 3> out, std::span<std::byte> scratchpad,
                    const std::vector<sycl::event>& dependencies) {
  check::device_type<T>("project", queue);
  check::input("project", "x", x);
  check::input("project", "u", u);
  check::output("project", "out", out);
  check::same_shape("project", "out", out, "x", x);
  check::same_extent("project", "u", u, 0, "x", x, 0);
  check::same_extent("project", "u", u, 1, "x", x, 2);
  const std::int64_t batch = x.extent[0], rows = x.extent[1], columns = u.extent[2];
  check::scratchpad("project", scratchpad, project_scratchpad_size<T>(batch, rows, columns));
  if (x.empty()) return join(queue, dependencies);
  const view<T, 3> coefficients = detail::scratchpad_parts(scratchpad.data()).take_array<T>(batch, rows, columns);
  if (part == row_part::range) {
    const sycl::event multiplied = gemm(queue, T(1), x, u, T(0), coefficients, {}, dependencies);
    return gemm(queue, T(1), coefficients, transposed(u), T(0), out, {}, {multiplied});
  }
  if (same_view(x, out)) return project_in_place(queue, u, out, coefficients, dependencies);
  const sycl::event copied =
      launch(queue, detail::groups_of(batch * rows, 1), 0, kernels::copy_rows<T>{x, out}, dependencies);
  return project_in_place(queue, u, out, coefficients, {copied});
}

template <class T>
sycl::event random_null_space_rows(sycl::queue& queue, std::type_identity_t<view<const T, 3>> u, view<T, 3> out,
                                   random_stream stream, std::span<std::byte> scratchpad,
                                   const std::vector<sycl::event>& dependencies) {
  check::device_type<T>("random_null_space_rows", queue);
  check::input("random_null_space_rows", "u", u);
  check::output("random_null_space_rows", "out", out);
  check::same_extent("random_null_space_rows", "u", u, 0, "out", out, 0);
  check::same_extent("random_null_space_rows", "u", u, 1, "out", out, 2);
  const auto dense = contiguous(out.data, out.extent[0], out.extent[1], out.extent[2]);
  if (!std::equal(dense.stride, dense.stride + 3, out.stride) && !out.empty()) {
    check::fail("random_null_space_rows", "out", out, "is not densely packed");
  }
  const std::int64_t batch = out.extent[0], rows = out.extent[1], columns = u.extent[2];
  check::scratchpad("random_null_space_rows", scratchpad, project_scratchpad_size<T>(batch, rows, columns));
  if (out.empty()) return join(queue, dependencies);
  const view<T, 3> coefficients = detail::scratchpad_parts(scratchpad.data()).take_array<T>(batch, rows, columns);
  sycl::event event = fill_normal(queue, contiguous(out.data, out.size()), stream, T(0), T(1), dependencies);
  for (int pass = 0; pass < 2; ++pass) event = project_in_place(queue, u, out, coefficients, {event});
  return event;
}

template std::int64_t append_ones_scratchpad_size<float>(std::int64_t, std::int64_t);
template std::int64_t append_ones_scratchpad_size<double>(std::int64_t, std::int64_t);
template sycl::event append_ones<float>(sycl::queue&, view<float, 3>, view<const std::int64_t, 1>,
                                        view<std::int64_t, 1>, std::span<std::byte>, double,
                                        const std::vector<sycl::event>&);
template sycl::event append_ones<double>(sycl::queue&, view<double, 3>, view<const std::int64_t, 1>,
                                         view<std::int64_t, 1>, std::span<std::byte>, double,
                                         const std::vector<sycl::event>&);
template std::int64_t project_scratchpad_size<float>(std::int64_t, std::int64_t, std::int64_t);
template std::int64_t project_scratchpad_size<double>(std::int64_t, std::int64_t, std::int64_t);
template sycl::event project<float>(sycl::queue&, row_part, view<const float, 3>, view<const float, 3>, view<float, 3>,
                                    std::span<std::byte>, const std::vector<sycl::event>&);
template sycl::event project<double>(sycl::queue&, row_part, view<const double, 3>, view<const double, 3>,
                                     view<double, 3>, std::span<std::byte>, const std::vector<sycl::event>&);
template sycl::event random_null_space_rows<float>(sycl::queue&, view<const float, 3>, view<float, 3>, random_stream,
                                                   std::span<std::byte>, const std::vector<sycl::event>&);
template sycl::event random_null_space_rows<double>(sycl::queue&, view<const double, 3>, view<double, 3>, random_stream,
                                                    std::span<std::byte>, const std::vector<sycl::event>&);

}  // namespace nullscope

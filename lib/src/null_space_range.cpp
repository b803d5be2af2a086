#include <algorithm>
#include <limits>
#include <nullscope/gemm.hpp>
#include <nullscope/launch.hpp>
#include <nullscope/null_space.hpp>
#include <nullscope/qr.hpp>
#include <nullscope/svd.hpp>

#include "checks.hpp"
#include "null_space_columns.hpp"
#include "scratchpad.hpp"
#include "svd_paths.hpp"
#include "team_shape.hpp"

namespace nullscope {
namespace {

/// The scratchpad of `range_basis`. q and r are the factors of V (or of T, if there is no H and it is tall), `core` is
/// what the SVD sees.
template <class T>
struct range_memory {
  view<T, 3> q, r;            // (B,S,k1), (B,k1,d_v)
  view<T, 3> product;         // (B,d,k1) = (R H)^T
  view<T, 3> core;            // (B,k1,k1): R of the QR of `product`
  view<T, 3> u, vt;           // of the SVD
  std::span<std::byte> work;  // for qr and svd, one after the other
  std::int64_t bytes;
};

/// Whether the matrix on which the SVD works is wide, so that its transpose is first reduced to a triangle.
bool is_reduced(std::int64_t rows, std::int64_t columns) { return columns > rows; }

template <class T>
range_memory<T> cut(const sycl::queue& queue, std::byte* memory, std::int64_t batch, std::int64_t tokens,
                    std::int64_t value_width, std::int64_t model_width, bool is_factored) {
  detail::scratchpad_parts parts(memory);
  range_memory<T> result{};
  std::int64_t rows = std::min(tokens, value_width);  // of the matrix whose left singular vectors are wanted
  std::int64_t work = 0;
  const bool has_q = is_factored || tokens > model_width;
  if (has_q) {
    result.q = parts.take_array<T>(batch, tokens, rows);
    result.r = parts.take_array<T>(batch, rows, value_width);
    work = qr_scratchpad_size<T>(queue, batch, tokens, value_width);
  }
  if (is_factored) result.product = parts.take_array<T>(batch, model_width, rows);
  if (is_reduced(rows, model_width)) {
    result.core = parts.take_array<T>(batch, rows, rows);
    work = std::max(work, qr_scratchpad_size<T>(queue, batch, model_width, rows, false));
  }
  const std::int64_t columns = std::min(rows, model_width);
  if (has_q) result.u = parts.take_array<T>(batch, rows, columns);
  result.vt = parts.take_array<T>(batch, columns, columns);
  if (columns > 0) work = std::max(work, svd_scratchpad_size<T>(queue, batch, rows, columns));
  result.work = parts.take_bytes(work);
  result.bytes = parts.bytes();
  return result;
}

template <class T>
void check_range(const view<T, 3>& u, const view<T, 2>& s, const view<std::int64_t, 1>& rank,
                 const view<std::int32_t, 1>& status, std::int64_t batch, std::int64_t tokens, std::int64_t columns,
                 const rank_tolerance& tolerance) {
  check::output("range_basis", "u", u);
  check::output("range_basis", "s", s);
  check::output("range_basis", "rank", rank);
  check::output("range_basis", "status", status);
  if (u.extent[0] != batch || u.extent[1] != tokens || u.extent[2] != columns) {
    check::fail("range_basis", "u", u, fmt::format("should have the shape ({}, {}, {})", batch, tokens, columns));
  }
  if (s.extent[0] != batch || s.extent[1] != columns) {
    check::fail("range_basis", "s", s, fmt::format("should have the shape ({}, {})", batch, columns));
  }
  if (rank.extent[0] != batch) check::fail("range_basis", "rank", rank, fmt::format("should have {} elements", batch));
  if (status.extent[0] != batch) {
    check::fail("range_basis", "status", status, fmt::format("should have {} elements", batch));
  }
  if (!(tolerance.absolute >= 0) || tolerance.relative != tolerance.relative) {
    throw invalid_argument(fmt::format("range_basis: tolerances (relative {}, absolute {}) are NaN or negative",
                                       tolerance.relative, tolerance.absolute));
  }
}

/// left (B,rows,columns) -> its left singular vectors, values and rank, then u = q left_vectors, or the vectors
/// themselves if there is no q.
template <class T>
sycl::event finish(sycl::queue& queue, const view<const T, 3>& left, const range_memory<T>& memory, view<T, 3> u,
                   view<T, 2> s, view<std::int64_t, 1> rank, view<std::int32_t, 1> status, T relative, T absolute,
                   const std::vector<sycl::event>& dependencies) {
  const bool has_q = memory.q.data != nullptr;
  const view<T, 3> vectors = has_q ? memory.u : u;
  view<const T, 3> core = left;
  std::vector<sycl::event> ready = dependencies;
  if (is_reduced(left.extent[1], left.extent[2])) {  // left = R^T Q^T with left^T = Q R
    ready = {qr<T>(queue, transposed(left), view<T, 3>{}, memory.core, memory.work, ready)};
    core = transposed(memory.core);
  }
  sycl::event last =
      svd<T>(queue, core, s, vectors, memory.vt, status, view<std::int32_t, 1>{}, memory.work, {}, ready);
  last = detail::rank_of_decomposed<T>(queue, s, status, s.extent[1], s.extent[1], relative, absolute, rank, {last});
  constexpr std::int64_t items = 64;
  last = launch(queue, detail::groups_of(detail::ceil_div(vectors.extent[0] * vectors.extent[1], items), items), 0,
                kernels::keep_first_columns<T>{vectors, rank}, {last});
  return has_q ? gemm(queue, T(1), memory.q, vectors, T(0), u, {}, {last}) : last;
}

/// The columns of an empty matrix: none count.
sycl::event nothing(sycl::queue& queue, view<std::int64_t, 1> rank, view<std::int32_t, 1> status,
                    const std::vector<sycl::event>& dependencies) {
  sycl::event last = join(queue, dependencies);
  for (std::int64_t i = 0; i < rank.extent[0]; ++i) {
    last = queue.fill(&rank(i), std::int64_t{0}, 1, last);
    last = queue.fill(&status(i), std::int32_t{svd_converged}, 1, last);
  }
  return last;
}

template <class T>
T relative_or_default(const rank_tolerance& tolerance, std::int64_t tokens, std::int64_t model_width) {
  if (tolerance.relative >= 0) return static_cast<T>(tolerance.relative);
  return static_cast<T>(std::max(tokens, model_width)) * std::numeric_limits<T>::epsilon();
}

}  // namespace

template <class T>
std::int64_t range_basis_scratchpad_size(const sycl::queue& queue, std::int64_t batch, std::int64_t tokens,
                                         std::int64_t value_width, std::int64_t model_width) {
  check::not_negative("range_basis_scratchpad_size", {batch, tokens, value_width, model_width});
  return cut<T>(queue, nullptr, batch, tokens, value_width, model_width, true).bytes;
}

template <class T>
std::int64_t range_basis_scratchpad_size(const sycl::queue& queue, std::int64_t batch, std::int64_t tokens,
                                         std::int64_t model_width) {
  check::not_negative("range_basis_scratchpad_size", {batch, tokens, model_width});
  return cut<T>(queue, nullptr, batch, tokens, model_width, model_width, false).bytes;
}

template <class T>
sycl::event range_basis(sycl::queue& queue, std::type_identity_t<view<const T, 3>> v,
                        std::type_identity_t<view<const T, 3>> h, view<T, 3> u, view<T, 2> s,
                        view<std::int64_t, 1> rank, view<std::int32_t, 1> status, std::span<std::byte> scratchpad,
                        const rank_tolerance& tolerance, const std::vector<sycl::event>& dependencies) {
  check::device_type<T>("range_basis", queue);
  check::input("range_basis", "v", v);
  check::input("range_basis", "h", h);
  check::same_extent("range_basis", "v", v, 0, "h", h, 0);
  check::same_extent("range_basis", "v", v, 2, "h", h, 1);
  const std::int64_t batch = v.extent[0], tokens = v.extent[1], value_width = v.extent[2], model_width = h.extent[2];
  check_range(u, s, rank, status, batch, tokens, std::min({tokens, value_width, model_width}), tolerance);
  check::scratchpad("range_basis", scratchpad,
                    range_basis_scratchpad_size<T>(queue, batch, tokens, value_width, model_width));
  if (u.empty()) return nothing(queue, rank, status, dependencies);
  const range_memory<T> memory = cut<T>(queue, scratchpad.data(), batch, tokens, value_width, model_width, true);
  sycl::event event = qr<T>(queue, v, memory.q, memory.r, memory.work, dependencies);
  // h^T (B,d,d_v) r^T (B,d_v,k1) -> (R H)^T (B,d,k1), row-major as the QR of a tall matrix likes it
  event = gemm(queue, T(1), transposed(h), transposed(view<const T, 3>(memory.r)), T(0), memory.product, {}, {event});
  return finish<T>(queue, transposed(view<const T, 3>(memory.product)), memory, u, s, rank, status,
                   relative_or_default<T>(tolerance, tokens, model_width), static_cast<T>(tolerance.absolute), {event});
}

template <class T>
sycl::event range_basis(sycl::queue& queue, std::type_identity_t<view<const T, 3>> t, view<T, 3> u, view<T, 2> s,
                        view<std::int64_t, 1> rank, view<std::int32_t, 1> status, std::span<std::byte> scratchpad,
                        const rank_tolerance& tolerance, const std::vector<sycl::event>& dependencies) {
  check::device_type<T>("range_basis", queue);
  check::input("range_basis", "t", t);
  const std::int64_t batch = t.extent[0], tokens = t.extent[1], model_width = t.extent[2];
  check_range(u, s, rank, status, batch, tokens, std::min(tokens, model_width), tolerance);
  check::scratchpad("range_basis", scratchpad, range_basis_scratchpad_size<T>(queue, batch, tokens, model_width));
  if (u.empty()) return nothing(queue, rank, status, dependencies);
  const range_memory<T> memory = cut<T>(queue, scratchpad.data(), batch, tokens, model_width, model_width, false);
  const bool has_q = memory.q.data != nullptr;  // otherwise T is wide or square, and is its own small matrix
  std::vector<sycl::event> ready = dependencies;
  if (has_q) ready = {qr<T>(queue, t, memory.q, memory.r, memory.work, dependencies)};
  return finish<T>(queue, has_q ? view<const T, 3>(memory.r) : t, memory, u, s, rank, status,
                   relative_or_default<T>(tolerance, tokens, model_width), static_cast<T>(tolerance.absolute), ready);
}

template std::int64_t range_basis_scratchpad_size<float>(const sycl::queue&, std::int64_t, std::int64_t, std::int64_t,
                                                         std::int64_t);
template std::int64_t range_basis_scratchpad_size<double>(const sycl::queue&, std::int64_t, std::int64_t, std::int64_t,
                                                          std::int64_t);
template std::int64_t range_basis_scratchpad_size<float>(const sycl::queue&, std::int64_t, std::int64_t, std::int64_t);
template std::int64_t range_basis_scratchpad_size<double>(const sycl::queue&, std::int64_t, std::int64_t, std::int64_t);
template sycl::event range_basis<float>(sycl::queue&, view<const float, 3>, view<const float, 3>, view<float, 3>,
                                        view<float, 2>, view<std::int64_t, 1>, view<std::int32_t, 1>,
                                        std::span<std::byte>, const rank_tolerance&, const std::vector<sycl::event>&);
template sycl::event range_basis<double>(sycl::queue&, view<const double, 3>, view<const double, 3>, view<double, 3>,
                                         view<double, 2>, view<std::int64_t, 1>, view<std::int32_t, 1>,
                                         std::span<std::byte>, const rank_tolerance&, const std::vector<sycl::event>&);
template sycl::event range_basis<float>(sycl::queue&, view<const float, 3>, view<float, 3>, view<float, 2>,
                                        view<std::int64_t, 1>, view<std::int32_t, 1>, std::span<std::byte>,
                                        const rank_tolerance&, const std::vector<sycl::event>&);
template sycl::event range_basis<double>(sycl::queue&, view<const double, 3>, view<double, 3>, view<double, 2>,
                                         view<std::int64_t, 1>, view<std::int32_t, 1>, std::span<std::byte>,
                                         const rank_tolerance&, const std::vector<sycl::event>&);

}  // namespace nullscope

#include <nullscope/gemm.hpp>
#include <nullscope/launch.hpp>
#include <nullscope/null_space.hpp>
#include <nullscope/qr.hpp>

#include "checks.hpp"
#include "null_space_basis.hpp"
#include "null_space_columns.hpp"
#include "null_space_complement.hpp"
#include "scratchpad.hpp"
#include "team_shape.hpp"

namespace nullscope {
namespace {

template <class T>
inline constexpr int cpu_lanes = 64 / sizeof(T);

template <class T>
struct basis_memory {
  view<T, 3> q, r;    // (B,S,k) u completed to k orthonormal columns, (B,k,k)
  view<T, 3> system;  // (B,k,stride), see complement_of_columns; padded for the widest lanes
  T* coefficients;    // (B,2,k), likewise
  std::span<std::byte> work;
  std::int64_t first;  // column of the right-hand sides in `system`
  std::int64_t bytes;
};

template <class T>
basis_memory<T> cut(const sycl::queue& queue, std::byte* memory, std::int64_t batch, std::int64_t tokens,
                    std::int64_t columns) {
  const auto padded = [](std::int64_t count) { return detail::ceil_div(count, cpu_lanes<T>) * cpu_lanes<T>; };
  detail::scratchpad_parts parts(memory);
  basis_memory<T> result{};
  result.q = parts.take_array<T>(batch, tokens, columns);
  result.r = parts.take_array<T>(batch, columns, columns);
  result.first = padded(columns);
  result.system = parts.take_array<T>(batch, columns, result.first + padded(tokens - columns));
  result.coefficients = parts.take<T>(batch * 2 * columns);
  result.work = parts.take_bytes(qr_scratchpad_size<T>(queue, batch, tokens, columns));
  result.bytes = parts.bytes();
  return result;
}

template <class T, int W>
sycl::event solve(sycl::queue& queue, const basis_memory<T>& memory, const view<T, 3>& complement,
                  const sycl::event& before) {
  const std::int64_t items = W > 1 ? 1 : 64;
  kernels::complement_of_columns<T, W> kernel{
      memory.q, complement, memory.system.data, memory.coefficients, memory.first, memory.system.extent[2]};
  return launch(queue, detail::groups_of(complement.extent[0], items), 0, kernel, {before});
}

}  // namespace

template <class T>
sycl::event detail::null_space_basis(sycl::queue& queue, bool team, const view<const T, 3>& u,
                                     const view<const std::int64_t, 1>& rank, const view<T, 3>& null_basis,
                                     std::byte* scratchpad, const std::vector<sycl::event>& dependencies) {
  const std::int64_t batch = u.extent[0], tokens = u.extent[1], columns = u.extent[2];
  const basis_memory<T> memory = cut<T>(queue, scratchpad, batch, tokens, columns);
  // The QR of u keeps the span of its columns that count, and puts other orthonormal ones where it has zeros.
  const sycl::event completed = qr<T>(queue, u, memory.q, memory.r, memory.work, dependencies);
  const view<T, 3> complement = slice(null_basis, 2, 0, tokens - columns);
  const sycl::event solved = team ? solve<T, 1>(queue, memory, complement, completed)
                                  : solve<T, cpu_lanes<T>>(queue, memory, complement, completed);
  const view<T, 3> unknown = slice(memory.system, 2, memory.first, tokens - columns);
  const sycl::event subtracted = gemm(queue, T(-1), memory.q, unknown, T(1), complement, {}, {solved});
  return launch(queue, groups_of(batch * tokens, 1), 0, kernels::append_last_columns<T>{memory.q, null_basis, rank},
                {subtracted});
}

template <class T>
std::int64_t null_space_basis_scratchpad_size(const sycl::queue& queue, std::int64_t batch, std::int64_t tokens,
                                              std::int64_t columns) {
  if (batch < 0 || columns < 0 || tokens < columns) {
    throw invalid_argument(
        fmt::format("null_space_basis_scratchpad_size: u ({}, {}, {}) has a negative extent or more columns "
                    "than rows",
                    batch, tokens, columns));
  }
  return cut<T>(queue, nullptr, batch, tokens, columns).bytes;
}

template <class T>
sycl::event null_space_basis(sycl::queue& queue, std::type_identity_t<view<const T, 3>> u,
                             view<const std::int64_t, 1> rank, view<T, 3> null_basis, std::span<std::byte> scratchpad,
                             const std::vector<sycl::event>& dependencies) {
  check::device_type<T>("null_space_basis", queue);
  check::input("null_space_basis", "u", u);
  check::input("null_space_basis", "rank", rank);
  check::output("null_space_basis", "null_basis", null_basis);
  check::same_extent("null_space_basis", "rank", rank, 0, "u", u, 0);
  check::same_extent("null_space_basis", "null_basis", null_basis, 0, "u", u, 0);
  check::same_extent("null_space_basis", "null_basis", null_basis, 1, "u", u, 1);
  check::same_extent("null_space_basis", "null_basis", null_basis, 2, "u", u, 1);
  if (u.extent[2] > u.extent[1]) check::fail("null_space_basis", "u", u, "has more columns than rows");
  check::scratchpad("null_space_basis", scratchpad,
                    null_space_basis_scratchpad_size<T>(queue, u.extent[0], u.extent[1], u.extent[2]));
  if (null_basis.empty()) return join(queue, dependencies);
  const bool team = properties(queue.get_device()).kind != device_kind::cpu;
  return detail::null_space_basis<T>(queue, team, u, rank, null_basis, scratchpad.data(), dependencies);
}

template std::int64_t null_space_basis_scratchpad_size<float>(const sycl::queue&, std::int64_t, std::int64_t,
                                                              std::int64_t);
template std::int64_t null_space_basis_scratchpad_size<double>(const sycl::queue&, std::int64_t, std::int64_t,
                                                               std::int64_t);
template sycl::event null_space_basis<float>(sycl::queue&, view<const float, 3>, view<const std::int64_t, 1>,
                                             view<float, 3>, std::span<std::byte>, const std::vector<sycl::event>&);
template sycl::event null_space_basis<double>(sycl::queue&, view<const double, 3>, view<const std::int64_t, 1>,
                                              view<double, 3>, std::span<std::byte>, const std::vector<sycl::event>&);
namespace detail {
template sycl::event null_space_basis<float>(sycl::queue&, bool, const view<const float, 3>&,
                                             const view<const std::int64_t, 1>&, const view<float, 3>&, std::byte*,
                                             const std::vector<sycl::event>&);
template sycl::event null_space_basis<double>(sycl::queue&, bool, const view<const double, 3>&,
                                              const view<const std::int64_t, 1>&, const view<double, 3>&, std::byte*,
                                              const std::vector<sycl::event>&);
}  // namespace detail

}  // namespace nullscope

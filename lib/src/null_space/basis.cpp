#include <algorithm>
#include <nullscope/core/operation.hpp>
#include <nullscope/linalg/gemm.hpp>
#include <nullscope/linalg/qr.hpp>
#include <nullscope/null_space/null_space.hpp>

#include "kernels/null_space/columns.hpp"
#include "kernels/null_space/complement.hpp"
#include "lib/src/core/checks.hpp"
#include "lib/src/core/dispatch.hpp"
#include "lib/src/core/ranges.hpp"

namespace nullscope {
namespace {

/// q (B,S,k) -> complement (B,S,S-k) = [X; I]; returns D X (B,k,S-k). See complement_of_columns.
template <class T>
view<T, 3> solve(operation& op, const view<const T, 3>& q, const view<T, 3>& complement) {
  constexpr std::int64_t line = 64 / sizeof(T);  // the parts of a row begin at cache lines, and hold whole vectors
  const auto padded = [](std::int64_t count) { return detail::ceil_div(count, line) * line; };
  const std::int64_t batch = q.extent[0], columns = q.extent[2], others = complement.extent[2];
  const std::int64_t first = padded(columns);
  const auto system = op.take_array<T>(batch, columns, first + padded(others));
  const auto coefficients = op.take_array<T>(batch, 2, columns);
  const lane_layout& layout = op.ctx().layout();
  detail::dispatch_lanes<T>(layout, [&]<int W>() {
    const kernels::complement_of_columns<T, W> kernel{q,     complement,      system.data, coefficients.data,
                                                      first, system.extent[2]};
    const std::int64_t items = W > 1 ? 1 : std::min<std::int64_t>(64, layout.group_items);
    op.launch(detail::groups_of(batch, items), 0, kernel);
  });
  return slice(system, 2, first, others);
}

template <class T>
sycl::event complete(context& ctx, const null_space_operands<T>& operands, const view<T, 3>& null_basis,
                     const events& dependencies) {
  constexpr const char* function = "null_space_basis";
  const auto& [u, rank] = operands;
  check::device_type<T>(function, ctx);
  check::input(function, "u", u);
  check::input(function, "rank", rank);
  check::output(function, "null_basis", null_basis);
  check::same_extent(function, "rank", rank, 0, "u", u, 0);
  check::same_extent(function, "null_basis", null_basis, 0, "u", u, 0);
  check::same_extent(function, "null_basis", null_basis, 1, "u", u, 1);
  check::same_extent(function, "null_basis", null_basis, 2, "u", u, 1);
  if (u.extent[2] > u.extent[1]) check::fail(function, "u", u, "has more columns than rows");
  operation op(ctx, function, dependencies);
  if (null_basis.empty()) return op.submit();
  const std::int64_t batch = u.extent[0], tokens = u.extent[1], columns = u.extent[2];
  // The QR of u keeps the span of its first `rank` columns, and has other orthonormal columns where u has zeros.
  const auto q = op.take_array<T>(batch, tokens, columns), r = op.take_array<T>(batch, columns, columns);
  qr(ctx, u, qr_results<T>{.q = q, .r = r});
  const view<T, 3> complement = slice(null_basis, 2, 0, tokens - columns);
  const view<T, 3> solution = solve<T>(op, q, complement);
  gemm(ctx, gemm_operands<T>{q, solution}, complement, {.alpha = -1, .beta = 1});
  op.launch(detail::groups_of(batch * tokens, 1), 0, kernels::append_last_columns<T>{q, null_basis, rank});
  return op.submit();
}

}  // namespace

sycl::event null_space_basis(context& ctx, const null_space_operands<float>& operands, view<float, 3> null_basis,
                             const events& dependencies) {
  return complete(ctx, operands, null_basis, dependencies);
}
sycl::event null_space_basis(context& ctx, const null_space_operands<double>& operands, view<double, 3> null_basis,
                             const events& dependencies) {
  return complete(ctx, operands, null_basis, dependencies);
}

}  // namespace nullscope

#include <algorithm>
#include <nullscope/core/operation.hpp>
#include <nullscope/linalg/svd.hpp>
#include <nullscope/null_space/simplex.hpp>

#include "kernels/null_space/logits.hpp"
#include "lib/src/core/checks.hpp"
#include "lib/src/core/ranges.hpp"
#include "lib/src/linalg/svd_paths.hpp"
#include "lib/src/null_space/tolerance.hpp"

namespace nullscope {
namespace {

template <class T>
sycl::event rank_of_logits(context& ctx, const view<const T, 3>& a, const view<std::int64_t, 1>& rank,
                           const rank_tolerance& tolerance, const events& dependencies) {
  constexpr const char* function = "logit_rank";
  check::device_type<T>(function, ctx);
  check::input(function, "a", a);
  check::output(function, "rank", rank);
  check::same_extent(function, "rank", rank, 0, "a", a, 0);
  if (a.extent[1] == 0 || a.extent[2] == 0) check::fail(function, "a", a, "has matrices without elements");
  detail::check_tolerance(function, tolerance);
  operation op(ctx, function, dependencies);
  if (rank.empty()) return op.submit();
  const std::int64_t batch = a.extent[0], rows = a.extent[1], tokens = a.extent[2];
  const auto logits = op.take_array<T>(batch, rows, tokens);
  const auto s = op.take_array<T>(batch, std::min(rows, tokens));
  const auto status = op.take_array<std::int32_t>(batch);
  constexpr std::int64_t items = 64;
  op.launch(detail::groups_of(detail::ceil_div(a.size(), items), items), 0, kernels::logits_of_rows<T>{a, logits});
  svd(ctx, logits, svd_results<T>{.s = s, .status = status}, {.vectors = svd_vectors::none});
  detail::rank_of_decomposed(ctx, s, status, rank, {rows, tokens, tolerance});
  return op.submit();
}

}  // namespace

sycl::event logit_rank(context& ctx, view<const float, 3> a, view<std::int64_t, 1> rank,
                       const rank_tolerance& tolerance, const events& dependencies) {
  return rank_of_logits(ctx, a, rank, tolerance, dependencies);
}
sycl::event logit_rank(context& ctx, view<const double, 3> a, view<std::int64_t, 1> rank,
                       const rank_tolerance& tolerance, const events& dependencies) {
  return rank_of_logits(ctx, a, rank, tolerance, dependencies);
}

}  // namespace nullscope

#include <fmt/format.h>

#include <nullscope/attention/attention_statistics.hpp>
#include <nullscope/core/errors.hpp>
#include <nullscope/linalg/gemm.hpp>

#include "kernels/attention/rollout.hpp"
#include "lib/src/core/checks.hpp"
#include "lib/src/core/strides.hpp"
#include "lib/src/linalg/row_launch.hpp"

namespace nullscope {
namespace {

template <class T>
sycl::event roll(context& ctx, const rollout_operands<T>& operands, const view<T, 2>& out,
                 const rollout_options& options, const events& dependencies) {
  constexpr const char* function = "attention_rollout";
  const view<const T, 3>& a = operands.attention;
  const std::int64_t tokens = a.extent[1];
  check::device_type<T>(function, ctx);
  check::input(function, "attention", a);
  if (a.extent[0] < 1) check::fail(function, "attention", a, "has no heads");
  check::shape(function, "attention", a, {a.extent[0], tokens, tokens});
  check::optional_input(function, "below", operands.below, {tokens, tokens});
  check::output(function, "out", out);
  check::shape(function, "out", out, {tokens, tokens});
  if (!(options.residual >= 0 && options.residual <= 1)) {
    throw invalid_argument(fmt::format("{}: residual is {}; it must be from 0 to 1", function, options.residual));
  }
  operation op(ctx, function, dependencies);
  if (tokens == 0) return op.submit();
  const view<T, 3> to = operands.below.is_absent() ? view<T, 3>(out) : op.take_array<T>(1, tokens, tokens);
  const bool neighbours = detail::has_neighbours(a) && detail::has_neighbours(to);
  const std::int64_t row_bytes = (a.extent[0] + 1) * tokens * static_cast<std::int64_t>(sizeof(T));
  detail::launch_rows<T>(op, {tokens, tokens, neighbours, row_bytes}, [&]<int W, int Items>() {
    return kernels::rollout_layer<T, W, Items>{a, to, static_cast<T>(options.residual), 0};
  });
  if (!operands.below.is_absent()) gemm(ctx, gemm_operands<T>{to, operands.below}, view<T, 3>(out));
  return op.submit();
}

}  // namespace

sycl::event attention_rollout(context& ctx, const rollout_operands<float>& operands, view<float, 2> out,
                              const rollout_options& options, const events& dependencies) {
  return roll(ctx, operands, out, options, dependencies);
}
sycl::event attention_rollout(context& ctx, const rollout_operands<double>& operands, view<double, 2> out,
                              const rollout_options& options, const events& dependencies) {
  return roll(ctx, operands, out, options, dependencies);
}

}  // namespace nullscope

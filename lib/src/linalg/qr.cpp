#include <nullscope/linalg/qr.hpp>

#include <algorithm>
#include <cstddef>

#include "kernels/linalg/qr_chunks.hpp"
#include "lib/src/core/checks.hpp"
#include "lib/src/core/dispatch.hpp"
#include "lib/src/core/ranges.hpp"
#include "lib/src/linalg/qr_plan.hpp"

namespace nullscope {
namespace {

using detail::ceil_div;
using detail::qr_choices;

/// An additional chunk costs flops: Q is then formed from dense rows of the parent (4 m n^2 instead of 2 m n^2). It
/// pays if it keeps more work-groups busy.
std::int64_t count_chunks(const qr_choices& choices, std::int64_t batch, std::int64_t rows, std::int64_t columns) {
  const std::int64_t most = rows / std::max<std::int64_t>(4 * columns, 256);
  if (choices.chunks > 0) return std::clamp<std::int64_t>(choices.chunks, 1, std::max<std::int64_t>(rows / columns, 1));
  const std::int64_t rounds = ceil_div(batch, choices.parallel);
  if (most < 2 || 4 * rounds * choices.parallel <= 6 * batch) return 1;
  return std::min(most, ceil_div(4 * choices.parallel, batch));
}

/// How a kernel that factors chunks of a (batch, rows, columns) uses its memory.
template <class T, int W>
kernels::qr_layout<W> layout_of(const lane_layout& lanes, const qr_choices& choices, std::int64_t rows,
                                std::int64_t columns, std::int64_t chunks) {
  constexpr std::int64_t block_bytes = 32768;  // two thirds of a first-level cache; twice as much is slower
  constexpr std::int64_t number_bytes = sizeof(T);
  kernels::qr_layout<W> layout{};
  layout.columns = columns;
  layout.steps = std::min(rows, columns);
  layout.chunk_rows = ceil_div(rows, chunks);
  if (layout.chunk_rows > layout.steps) {
    const std::int64_t fitting = block_bytes / (layout.stride() * number_bytes);
    const std::int64_t wanted =
        choices.block_rows > 0 ? choices.block_rows : std::clamp<std::int64_t>(fitting, 16, 512);
    layout.block_rows = layout.padded(std::min(wanted, layout.chunk_rows - layout.steps));
  }
  layout.uses_local_memory = layout.local() * number_bytes <= lanes.local_bytes;
  return layout;
}

/// One level of the tree, and those above it.
template <class T, int W>
void factor(operation& op, qr_choices choices, const view<const T, 3>& a, const qr_results<T>& results) {
  const lane_layout& lanes = op.ctx().layout();
  const std::int64_t batch = a.extent[0], rows = a.extent[1], columns = a.extent[2];
  const std::int64_t chunks = count_chunks(choices, batch, rows, columns);
  const std::int64_t tasks = batch * chunks, groups = std::min(tasks, 4 * choices.parallel);
  const bool with_q = !results.q.is_absent();
  kernels::qr_chunks<T, W> kernel{};
  kernel.a = a;
  kernel.q = results.q;
  kernel.layout = layout_of<T, W>(lanes, choices, rows, columns, chunks);
  kernel.chunks = chunks;
  kernel.tasks = tasks;
  kernel.keeps_reflectors = with_q;
  kernel.slot_per_task = with_q && chunks > 1;
  kernel.slots =
      op.take_array<T>(kernel.slot_per_task ? tasks : groups, kernel.layout.slot(with_q)).data;  // reflectors
  kernel.factors = true;
  kernel.forms = with_q && chunks == 1;
  const std::size_t local_bytes =
      kernel.layout.uses_local_memory ? static_cast<std::size_t>(kernel.layout.local()) * sizeof(T) : 0;
  const std::int64_t items =
      W > 1 ? 1 : std::min(std::clamp<std::int64_t>(ceil_div(columns, 32) * 32, 32, 128), lanes.group_items);
  const sycl::nd_range<1> range = detail::groups_of(groups, items);
  if (chunks == 1) {
    kernel.r = results.r;
    op.launch(range, local_bytes, kernel);
    return;
  }
  // a (B,m,n) -> stacked R (B,chunks*n,n) -> its Q (B,chunks*n,n) and R (B,n,n) -> q (B,m,n)
  const view<T, 3> stack = op.take_array<T>(batch, chunks * columns, columns);
  const view<T, 3> stack_q = with_q ? op.take_array<T>(batch, chunks * columns, columns) : view<T, 3>{};
  kernel.r = stack;
  op.launch(range, local_bytes, kernel);
  choices.chunks /= 2;
  factor<T, W>(op, choices, stack, {.q = stack_q, .r = results.r});
  if (!with_q) return;
  kernel.parent = stack_q;
  kernel.factors = false;
  kernel.forms = true;
  op.launch(range, local_bytes, kernel);
}

template <class T>
sycl::event factor_all(context& ctx, const qr_choices& choices, const view<const T, 3>& a,
                       const qr_results<T>& results) {
  operation op(ctx, "qr");
  detail::dispatch_lanes<T>(ctx.layout(), [&]<int W>() { factor<T, W>(op, choices, a, results); });
  return op.submit();
}

template <class T>
sycl::event check_and_run(context& ctx, const view<const T, 3>& a, const qr_results<T>& results,
                          const events& dependencies) {
  check::input("qr", "a", a);
  const std::int64_t batch = a.extent[0], m = a.extent[1], n = a.extent[2], k = std::min(m, n);
  check::optional_output("qr", "q", results.q, {batch, m, k});
  check::output("qr", "r", results.r);
  check::shape("qr", "r", results.r, {batch, k, n});
  check::device_type<T>("qr", ctx);
  operation op(ctx, "qr", dependencies);
  if (!a.empty()) factor_all(ctx, detail::default_qr_choices(ctx), a, results);
  return op.submit();
}

}  // namespace

detail::qr_choices detail::default_qr_choices(const context& ctx) {
  return {.parallel = ctx.device().compute_units * (ctx.layout().has_vectors() ? 1 : 4)};
}

sycl::event detail::qr(context& ctx, const qr_choices& choices, view<const float, 3> a,
                       const qr_results<float>& results) {
  return factor_all(ctx, choices, a, results);
}
sycl::event detail::qr(context& ctx, const qr_choices& choices, view<const double, 3> a,
                       const qr_results<double>& results) {
  return factor_all(ctx, choices, a, results);
}

sycl::event qr(context& ctx, view<const float, 3> a, const qr_results<float>& results, const events& dependencies) {
  return check_and_run(ctx, a, results, dependencies);
}
sycl::event qr(context& ctx, view<const double, 3> a, const qr_results<double>& results, const events& dependencies) {
  return check_and_run(ctx, a, results, dependencies);
}

}  // namespace nullscope

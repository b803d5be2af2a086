/// Attention on a CPU, whose lanes are queries.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nullscope/attention/attention.hpp>
#include <nullscope/linalg/rows.hpp>
#include <type_traits>

#include "kernels/attention/forward_vectors.hpp"
#include "lib/src/attention/common.hpp"
#include "lib/src/core/strides.hpp"

namespace nullscope::detail {

/// x (batch, heads, rows, columns) as the kernel needs it, in T with last stride 1; a copy if x itself is not.
template <class T, class In>
view<const T, 4> with_neighbours(operation& op, const view<const In, 4>& x) {
  if constexpr (std::is_same_v<In, T>) {
    if (has_neighbours(x)) return x;
  }
  const view<T, 4> copied = op.take_array<T>(x.extent[0], x.extent[1], x.extent[2], x.extent[3]);
  for_matrices([&](const view<const In, 3>& from, const view<T, 3>& to) { copy(op.ctx(), from, to); }, x, copied);
  return copied;
}

/// Panels of queries per work-group. More make better use of keys and values in cache; there should be enough
/// work-groups for compute units to finish at about the same time.
template <class Kernel, class T>
std::int64_t query_panels_of_group(const context& ctx, const view<T, 4>& out, std::int64_t dk) {
  constexpr std::int64_t most = 4, groups_of_unit = 64;
  const std::int64_t heads = out.extent[0] * out.extent[1], panels = ceil_div(out.extent[2], Kernel::width);
  std::int64_t count = 1;
  while (count < most && Kernel::local_bytes(count + 1, dk, out.extent[3]) <= ctx.layout().local_bytes &&
         heads * ceil_div(panels, count + 1) >= groups_of_unit * ctx.device().compute_units) {
    ++count;
  }
  return count;
}

template <class Kernel, class In, class T>
void launch_with_vectors(operation& op, const attention_operands<In>& operands, const attention_results<T>& results,
                         const attention_options& options) {
  const auto& [q, k, v, bias] = operands;
  const std::int64_t panels = query_panels_of_group<Kernel>(op.ctx(), results.out, q.extent[3]);
  const std::int64_t query_blocks = ceil_div(q.extent[2], panels * Kernel::width);
  const Kernel kernel{.q = q,
                      .k = with_neighbours<T>(op, k),
                      .v = with_neighbours<T>(op, v),
                      .out = results.out,
                      .log_sum_exp = results.log_sum_exp,
                      .sum_of_squares = results.sum_of_squares,
                      .bias = score_bias_of(bias, std::abs(scale_of(options, q.extent[3]))),
                      .visibility = visibility_of(options, q.extent[2], k.extent[2]),
                      .scale = score_scale_of<T>(options, q.extent[3]),
                      .panels = panels,
                      .query_blocks = query_blocks};
  op.launch(groups_of(q.extent[0] * q.extent[1] * query_blocks, 1),
            static_cast<std::size_t>(Kernel::local_bytes(panels, q.extent[3], v.extent[3])), kernel);
}

/// Adds the steps of attention to the operation. Operands are checked, out is not empty.
template <class Shape, class In, class T>
void attend_with_vectors(operation& op, const attention_operands<In>& operands, const attention_results<T>& results,
                         const attention_options& options) {
  if (operands.bias.is_absent()) {
    launch_with_vectors<kernels::attention_forward_vectors<In, T, Shape, false>>(op, operands, results, options);
  } else {
    launch_with_vectors<kernels::attention_forward_vectors<In, T, Shape, true>>(op, operands, results, options);
  }
}

}  // namespace nullscope::detail

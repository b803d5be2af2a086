#include "kernels/attribution/entering_attention.hpp"

#include <nullscope/attention/attention.hpp>
#include <nullscope/attribution/jacobian.hpp>
#include <nullscope/linalg/gemm.hpp>

#include "lib/src/attention/common.hpp"
#include "lib/src/attribution/tangent_layers.hpp"
#include "lib/src/core/fill.hpp"
#include "lib/src/core/ranges.hpp"
#include "lib/src/linalg/row_launch.hpp"

namespace nullscope::detail {

/// memory.attended from projected (batch, slots, width), the tangents of q, k and v at the tokens where they entered.
template <class T>
void tangent_layers<T>::attend_to_entering(operation& op, std::int64_t layer, const entering_tangents<T>& entering,
                                           const view<T, 3>& projected, const tangent_memory<T>& memory) const {
  const layer_arrays<T>& arrays = planned(layer).arrays;
  const std::int64_t heads = config_.heads, dk = config_.key_size, dv = config_.value_size, rows = memory.x.extent[1];
  const std::int64_t slots = projected.extent[1], q_width = config_.query_width(), width = projected.extent[2];
  const view<T, 5> d_out = heads_of_tangents(memory.attended, 0, 0, heads, dv);
  const auto head_part = [&](std::int64_t column, std::int64_t size) {  // (slots, batch, heads, size)
    return view<T, 4>{projected.data + column, {slots, batch_, heads, size}, {width, slots * width, size, 1}};
  };

  // The query of the token itself, against all keys, which do not move here.
  const view<T, 1> zero = op.take_array<T>(1);
  fill_zero(op, zero);
  for (const slots_of_token& of : entering.tokens) {
    const std::int64_t keys = config_.causal ? of.token + 1 : tokens_;
    const auto still = [&](std::int64_t size) {
      return view<const T, 5>{zero.data, {of.count, batch_, heads, keys, size}, {0, 0, 0, 0, 0}};
    };
    const auto row = [&](const auto& x) { return slice(x, 2, of.token, 1); };
    const attention_options options{.lengths = lengths_};
    attention_tangent(ctx_,
                      {row(arrays.q), slice(arrays.k, 2, 0, keys), slice(arrays.v, 2, 0, keys), row(arrays.attended),
                       row(arrays.log_sum_exp), add_dimension(slice(head_part(0, dk), 0, of.first, of.count), 3),
                       still(dk), still(dv), bias_of(of.token, 1, keys)},
                      slice(slice(d_out, 0, of.first, of.count), 3, of.token - memory.first, 1), options);
  }

  // The key and the value of the token, seen by all queries.
  const std::int64_t first_token = entering.tokens.front().token;
  const std::int64_t entered = entering.tokens.back().token - first_token + 1;
  const view<T, 4> q = slice(arrays.q, 2, memory.first, rows);
  const view<T, 4> weights = op.take_array<T>(batch_, heads, rows, entered);
  const view<T, 4> products = op.take_array<T>(batch_, heads, rows, slots);
  attention_tile_options tile;
  tile.attention = {.causal = config_.causal, .lengths = lengths_};
  tile.first_key = first_token;
  attention_weights(
      ctx_, {q, arrays.k, slice(arrays.log_sum_exp, 2, memory.first, rows), bias_of(memory.first, rows, tokens_)},
      weights, tile);
  for (std::int64_t b = 0; b < batch_; ++b) {
    // (heads, rows, dk) (heads, dk, slots)
    const view<const T, 3> keys{projected.data + b * slots * width + q_width, {heads, dk, slots}, {dk, 1, width}};
    gemm(ctx_, {select(q, 0, b), keys}, select(products, 0, b));
  }
  const row_set set{.rows = batch_ * rows * slots,
                    .columns = dv,
                    .neighbours = true,
                    .row_bytes = heads * dv * static_cast<std::int64_t>(sizeof(T))};
  launch_rows<T>(op, set, [&]<int W, int Items>() {
    return kernels::entering_attention<T, W, Items>{.weights = weights,
                                                    .products = products,
                                                    .v = arrays.v,
                                                    .out = slice(arrays.attended, 2, memory.first, rows),
                                                    .dv = head_part(2 * q_width, dv),
                                                    .d_out = d_out,
                                                    .token = entering.token_of_slot,
                                                    .first_token = first_token,
                                                    .first_query = memory.first,
                                                    .scale = static_cast<T>(scale_of({}, dk)),
                                                    .rows_per_group = 0};
  });
}

template void tangent_layers<float>::attend_to_entering(operation&, std::int64_t, const entering_tangents<float>&,
                                                        const view<float, 3>&, const tangent_memory<float>&) const;
template void tangent_layers<double>::attend_to_entering(operation&, std::int64_t, const entering_tangents<double>&,
                                                         const view<double, 3>&, const tangent_memory<double>&) const;

}  // namespace nullscope::detail

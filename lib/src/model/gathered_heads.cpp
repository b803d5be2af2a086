#include "lib/src/model/gathered_heads.hpp"

#include <algorithm>
#include <nullscope/attention/attention.hpp>
#include <nullscope/linalg/rows.hpp>
#include <nullscope/model/model_states.hpp>
#include <nullscope/null_space/null_space.hpp>

#include "lib/src/model/pass_plan.hpp"

namespace nullscope::detail {
namespace {

/// The rows of layer `layer` in an array (layers * heads, ...).
template <class T, int Rank>
view<T, Rank> of_layer(const view<T, Rank>& all, std::int64_t layer, std::int64_t heads) {
  return slice(all, 0, layer * heads, heads);
}

template <class T>
tensor<T> projections(context& ctx, const transformer<T>& model) {
  const transformer_config& config = model.config();
  const std::int64_t d_v = config.value_size, d = config.width, heads = config.heads;
  tensor<T> result(ctx, {config.layers * heads, d_v, std::min(d_v, d)});
  const std::int64_t step = config.merge == head_merge::added ? 0 : d_v;
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    // The output weight is (d, h d_v): the transpose of d_v columns for each head.
    const view<const T, 2> weight =
        places_of(model).layers[static_cast<std::size_t>(layer)].output.weight.matrix(model.values().data());
    const view<const T, 3> h{weight.data, {heads, d_v, d}, {step, weight.stride[1], weight.stride[0]}};
    const view<T, 3> to = of_layer(view<T, 3>(result), layer, heads);
    (d_v <= d ? reduce_projection(ctx, h, to) : copy(ctx, h, to)).wait_and_throw();
  }
  return result;
}

template <class T>
tensor<T> relative_positions(context& ctx, const transformer<T>& model, std::int64_t tokens) {
  const transformer_config& config = model.config();
  if (config.relative_buckets == 0) return {};
  tensor<T> table(ctx, {config.layers * config.heads, 2 * tokens - 1});
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {  // the same for all layers
    relative_bias(ctx, model.matrix("relative_bias"), of_layer(view<T, 2>(table), layer, config.heads),
                  {config.relative_distance})
        .wait_and_throw();
  }
  return table;
}

std::int64_t all_heads(const transformer_config& config) { return config.layers * config.heads; }

}  // namespace

template <class T>
gathered_heads<T>::gathered_heads(context& ctx, const transformer<T>& model, std::int64_t tokens)
    : model_(model),
      tokens_(tokens),
      q_(ctx, {all_heads(model.config()), tokens, model.config().key_size}),
      k_(ctx, {all_heads(model.config()), tokens, model.config().key_size}),
      v_(ctx, {all_heads(model.config()), tokens, model.config().value_size}),
      log_sum_exp_(ctx, {all_heads(model.config()), tokens}),
      h_(projections(ctx, model)),
      bias_(relative_positions(ctx, model, tokens)) {}

template <class T>
attention_heads<T> gathered_heads<T>::gather(context& ctx, forward_record<T>& record, std::int64_t sequence,
                                             std::int64_t count) {
  const transformer_config& config = model_.config();
  const auto first_tokens = [&](tensor<T>& x) {
    const std::int64_t columns = x.shape()[2];  // densely packed, however many tokens there are
    return contiguous(x.data(), x.shape()[0], count, columns);
  };
  const view<T, 3> q = first_tokens(q_), k = first_tokens(k_), v = first_tokens(v_);
  const bool has_bias = config.relative_buckets > 0;
  const view<const T, 2> table = has_bias ? of_layer(view<const T, 2>(bias_), 0, config.heads) : view<const T, 2>{};
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const attention_heads<T> from = layer_heads(model_, record, {layer, sequence, count}, table);
    copy(ctx, from.q, of_layer(q, layer, config.heads));
    copy(ctx, from.k, of_layer(k, layer, config.heads));
    copy(ctx, from.v, of_layer(v, layer, config.heads));
  }
  attention_heads<T> result{q, k, v, h_, {}};
  if (has_bias) {
    const view<const T, 3> bias = select(view<const T, 4>(relative_bias_view(view<const T, 2>(bias_), 1)), 0, 0);
    result.bias = slice(slice(bias, 1, 0, count), 2, 0, count);
  }
  return result;
}

template <class T>
view<const T, 2> gathered_heads<T>::gather_log_sum_exp(context& ctx, forward_record<T>& record, std::int64_t sequence,
                                                       std::int64_t count) {
  const std::int64_t heads = model_.config().heads;
  const view<T, 2> result = contiguous(log_sum_exp_.data(), log_sum_exp_.shape()[0], count);
  const auto plan = pass_plan<T>::of_filled(model_, record);
  for (const planned_layer<T>& layer : plan.layers) {
    const view<const T, 3> sums = layer.arrays.log_sum_exp;
    copy(ctx, view<const T, 3>(slice(select(sums, 0, sequence), 1, 0, count)),
         view<T, 3>(of_layer(result, layer.number, heads)));
  }
  return result;
}

template class gathered_heads<float>;
template class gathered_heads<double>;

}  // namespace nullscope::detail

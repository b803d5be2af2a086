#include "lib/src/attribution/tangent_layers.hpp"

#include <nullscope/attention/attention.hpp>
#include <nullscope/attribution/jacobian.hpp>
#include <nullscope/linalg/rows.hpp>
#include <nullscope/model/layers.hpp>

#include "lib/src/core/fill.hpp"

namespace nullscope::detail {
namespace {

/// x (batch, rows, slots, width) as (batch * rows, slots, width), or as a matrix with all slots below each other.
template <class T>
view<T, 3> by_token(const view<T, 4>& x) {
  return merge(x, 0);
}
template <class T>
view<T, 3> by_slot(const view<T, 4>& x) {
  return contiguous(x.data, 1, x.extent[0] * x.extent[1] * x.extent[2], x.extent[3]);
}

}  // namespace

template <class T>
tangent_layers<T>::tangent_layers(context& ctx, const transformer<T>& model, const token_batch& batch,
                                  forward_record<T>& record, const view<const T, 2>& bias, bool rounded)
    : ctx_(ctx),
      plan_(model, record, batch.size(), batch.tokens()),
      config_(model.config()),
      batch_(batch.size()),
      tokens_(batch.tokens()),
      lengths_(batch.device_lengths()),
      bias_(bias.is_absent() ? view<const T, 4>{} : relative_bias_view(bias, batch.size())),
      rounded_(rounded),
      jacobians_(static_cast<std::size_t>(model.config().layers)) {}

template <class T>
norm_at_tokens<T> tangent_layers<T>::first_norm(std::int64_t layer) const {
  const layer_arrays<T>& arrays = planned(layer).arrays;
  return {attention_norm_input(config_, arrays), planned(layer).weights.attention_norm.gamma,
          arrays.attention_norm.mean, arrays.attention_norm.inverse_deviation};
}

template <class T>
norm_at_tokens<T> tangent_layers<T>::second_norm(std::int64_t layer) const {
  const layer_arrays<T>& arrays = planned(layer).arrays;
  return {feed_forward_norm_input(config_, arrays), planned(layer).weights.feed_forward_norm.gamma,
          arrays.feed_forward_norm.mean, arrays.feed_forward_norm.inverse_deviation};
}

template <class T>
void tangent_layers<T>::multiply_rows_by_norm(const norm_at_tokens<T>& norm, const tangent_memory<T>& memory,
                                              const view<T, 4>& from, const view<T, 4>& to) const {
  if (memory.first == 0) return norm_product<T>(ctx_, norm, by_token(from), by_token(to));
  for (std::int64_t b = 0; b < batch_; ++b) {
    norm_product<T>(ctx_, norm.at(b * tokens_ + memory.first, 1, from.extent[1]), select(from, 0, b), select(to, 0, b));
  }
}

template <class T>
tangent_memory<T> tangent_layers<T>::take_memory(operation& op, std::int64_t first, std::int64_t slots) const {
  const std::int64_t rows = tokens_ - first, width = 2 * config_.query_width() + config_.value_width();
  const auto take = [&](std::int64_t tokens, std::int64_t columns) {
    return op.take_array<T>(batch_, tokens, slots, columns);
  };
  tangent_memory<T> memory;
  memory.first = first;
  memory.x = take(rows, config_.width);
  memory.spare = take(rows, config_.width);
  memory.attended = take(rows, config_.value_width());
  memory.projected = take(tokens_, width);
  bool is_merged = true;
  for (const layer_jacobians<T>& jacobians : jacobians_) is_merged &= !jacobians.is_absent();
  if (!is_merged) memory.activated = take(rows, config_.feed_forward);
  for (std::int64_t b = 0; first > 0 && b < batch_; ++b)
    fill_zero(op, slice(select(memory.projected, 0, b), 0, 0, first));
  return memory;
}

template <class T>
norm_at_tokens<T> tangent_layers<T>::embedding_norm() const {
  const norm_statistics<T>& of_norm = plan_.arrays.embedding_norm;
  return {plan_.arrays.embedded, plan_.weights.embedding_norm.gamma, of_norm.mean, of_norm.inverse_deviation};
}

template <class T>
void tangent_layers<T>::through_embedding_norm(const entering_tangents<T>& entering) const {
  if (!config_.embedding_norm) return;
  for (const slots_of_token& slots : entering.tokens) {
    const view<T, 3> part = slice(entering.tangents, 1, slots.first, slots.count);
    norm_product<T>(ctx_, embedding_norm().at(slots.token, tokens_, batch_), part, part);
  }
}

template <class T>
void tangent_layers<T>::through_embedding_norm(const tangent_memory<T>& memory) const {
  if (config_.embedding_norm) multiply_rows_by_norm(embedding_norm(), memory, memory.x, memory.x);
}

/// The matrix (d, h d_v) that the outputs of the heads, side by side, are multiplied by. If heads are added, that is
/// the same matrix (d, d_v) for each of them.
template <class T>
view<const T, 2> tangent_layers<T>::output_weights(operation& op, std::int64_t layer) const {
  const view<const T, 2> output = planned(layer).weights.output;
  if (config_.merge != head_merge::added) return output;
  const std::int64_t d = config_.width, heads = config_.heads, size = config_.value_size;
  const view<T, 2> repeated = op.take_array<T>(d, heads * size);
  copy(ctx_, view<const T, 3>{output.data, {d, heads, size}, {output.stride[0], 0, 1}},
       contiguous(repeated.data, d, heads, size));
  return repeated;
}

template <class T>
view<const T, 4> tangent_layers<T>::bias_of(std::int64_t first_query, std::int64_t queries, std::int64_t keys) const {
  return bias_.is_absent() ? bias_ : slice(slice(bias_, 2, first_query, queries), 3, 0, keys);
}

template <class T>
void tangent_layers<T>::pass(std::int64_t layer, tangent_memory<T>& memory) const {
  operation op(ctx_, "tangent_layer");
  const layer_arrays<T>& arrays = planned(layer).arrays;
  const std::int64_t slots = memory.x.extent[2], rows = memory.x.extent[1], q_width = config_.query_width();
  view<T, 4> seen = memory.x;
  if (config_.order == norm_order::pre) {
    seen = memory.spare;
    multiply_rows_by_norm(first_norm(layer), memory, memory.x, seen);
  }
  // (batch, rows * slots, d) -> the rows of projected (batch, tokens * slots, width) from `first` on
  const std::int64_t width = memory.projected.extent[3];
  const view<T, 3> projected{memory.projected.data + memory.first * slots * width,
                             {batch_, rows * slots, width},
                             {tokens_ * slots * width, width, 1}};
  const view<T, 3> from = contiguous(seen.data, batch_, rows * slots, config_.width);
  const view<const T, 2> weights = planned(layer).weights.query_key_value;
  if (memory.first == 0) {
    weight_product<T>(ctx_, rounded_, by_slot(seen), weights, by_slot(memory.projected));
  } else {
    weight_product<T>(ctx_, rounded_, from, weights, projected);
  }
  const auto part = [&](std::int64_t token, std::int64_t column, std::int64_t size) {
    return heads_of_tangents(memory.projected, token, column, config_.heads, size);
  };
  attention_options options{.causal = config_.causal, .lengths = lengths_};
  attention_tangent(ctx_,
                    {slice(arrays.q, 2, memory.first, rows), arrays.k, arrays.v,
                     slice(arrays.attended, 2, memory.first, rows), slice(arrays.log_sum_exp, 2, memory.first, rows),
                     part(memory.first, 0, config_.key_size), part(0, q_width, config_.key_size),
                     part(0, 2 * q_width, config_.value_size), bias_of(memory.first, rows, tokens_)},
                    heads_of_tangents(memory.attended, 0, 0, config_.heads, config_.value_size), options);
  weight_product<T>(ctx_, rounded_, by_slot(memory.attended), output_weights(op, layer), by_slot(memory.x), 1);
  after_attention(layer, memory);
  op.submit();
}

template <class T>
void tangent_layers<T>::enter(std::int64_t layer, const entering_tangents<T>& entering,
                              tangent_memory<T>& memory) const {
  operation op(ctx_, "entering_tangent_layer");
  const std::int64_t slots = entering.tangents.extent[1], d = config_.width;
  view<T, 3> seen = entering.tangents;
  if (config_.order == norm_order::pre) {
    seen = op.take_array<T>(batch_, slots, d);
    for (const slots_of_token& of : entering.tokens) {
      norm_product<T>(ctx_, first_norm(layer).at(of.token, tokens_, batch_),
                      slice(entering.tangents, 1, of.first, of.count), slice(seen, 1, of.first, of.count));
    }
  }
  const std::int64_t width = memory.projected.extent[3];
  const view<T, 3> projected = op.take_array<T>(batch_, slots, width);
  weight_product<T>(ctx_, rounded_, contiguous(seen.data, 1, batch_ * slots, d), planned(layer).weights.query_key_value,
                    contiguous(projected.data, 1, batch_ * slots, width));
  attend_to_entering(op, layer, entering, projected, memory);
  weight_product<T>(ctx_, rounded_, by_slot(memory.attended), output_weights(op, layer), by_slot(memory.x));
  for (const slots_of_token& of : entering.tokens) {  // the residual
    const view<T, 3> at = slice(select(memory.x, 1, of.token - memory.first), 1, of.first, of.count);
    axpby(ctx_, {at, slice(entering.tangents, 1, of.first, of.count)}, at);
  }
  after_attention(layer, memory);
  op.submit();
}

/// From memory.x, the tangents of attention_sum, to those of the output of the layer, in memory.x again.
template <class T>
void tangent_layers<T>::after_attention(std::int64_t layer, tangent_memory<T>& memory) const {
  const layer_jacobians<T>& jacobians = jacobians_[static_cast<std::size_t>(layer)];
  if (!jacobians.is_absent()) {
    const std::int64_t rows = memory.x.extent[1];
    if (memory.first == 0) {
      jacobian_product<T>(ctx_, by_token(memory.x), jacobians, by_token(memory.spare));
    } else {
      for (std::int64_t b = 0; b < batch_; ++b) {
        jacobian_product<T>(ctx_, select(memory.x, 0, b), jacobians.tokens(b * tokens_ + memory.first, rows),
                            select(memory.spare, 0, b));
      }
    }
    std::swap(memory.x, memory.spare);
    return;
  }
  if (config_.order == norm_order::pre) {
    multiply_rows_by_norm(second_norm(layer), memory, memory.x, memory.spare);
    feed_forward(layer, memory.spare, memory);
  } else {
    multiply_rows_by_norm(first_norm(layer), memory, memory.x, memory.x);
    feed_forward(layer, memory.x, memory);
    multiply_rows_by_norm(second_norm(layer), memory, memory.x, memory.x);
  }
}

/// memory.x += the tangents of feed_forward(middle)
template <class T>
void tangent_layers<T>::feed_forward(std::int64_t layer, const view<T, 4>& middle,
                                     const tangent_memory<T>& memory) const {
  operation op(ctx_, "feed_forward_tangent");
  const layer_weights<const T>& weights = planned(layer).weights;
  const std::int64_t rows = memory.x.extent[1], slots = memory.x.extent[2], columns = config_.feed_forward;
  weight_product<T>(ctx_, rounded_, by_slot(middle), weights.up, by_slot(memory.activated));
  const view<T, 2> slope = derivatives(op, layer);
  for (std::int64_t b = 0; b < batch_; ++b) {
    const view<T, 3> of_sequence = select(memory.activated, 0, b);
    const view<const T, 3> factor{
        slope.data + (b * tokens_ + memory.first) * columns, {rows, slots, columns}, {columns, 0, 1}};
    multiply(ctx_, {of_sequence, factor}, of_sequence);
  }
  weight_product<T>(ctx_, rounded_, by_slot(memory.activated), weights.down, by_slot(memory.x), 1);
  op.submit();
}

/// (batch * tokens, feed_forward): the slope of the activation function at each token.
template <class T>
view<T, 2> tangent_layers<T>::derivatives(operation& op, std::int64_t layer) const {
  const layer_arrays<T>& arrays = planned(layer).arrays;
  const view<T, 2> slope = op.take_array<T>(arrays.pre_activation.extent[0], arrays.pre_activation.extent[1]);
  fill_value(op, slope, T(1));
  activation_backward(ctx_, {arrays.pre_activation, slope}, {slope, {}}, {.function = config_.function});
  return slope;
}

template <class T>
view<T, 4> tangent_layers<T>::hidden_state(std::int64_t layer, tangent_memory<T>& memory) const {
  if (config_.order == norm_order::post || layer < config_.layers) return memory.x;
  const norm_statistics<T>& of_norm = plan_.arrays.final_norm;
  multiply_rows_by_norm(
      {plan_.arrays.last_sum, plan_.weights.final_norm.gamma, of_norm.mean, of_norm.inverse_deviation}, memory,
      memory.x, memory.x);
  return memory.x;
}

template class tangent_layers<float>;
template class tangent_layers<double>;

}  // namespace nullscope::detail

#include <nullscope/linalg/gemm.hpp>
#include <nullscope/linalg/rows.hpp>
#include <nullscope/model/layers.hpp>
#include <nullscope/model/transformer.hpp>

#include "lib/src/core/checks.hpp"
#include "lib/src/core/fill.hpp"
#include "lib/src/model/layer_backward.hpp"
#include "lib/src/model/layer_forward.hpp"
#include "lib/src/model/norm_block.hpp"
#include "lib/src/model/pool.hpp"

namespace nullscope {
namespace {

constexpr const char* backward_name = "backward";

template <class T>
void check_operands(const transformer<T>& model, const token_batch& batch, const backward_operands<T>& operands,
                    const backward_results<T>& results, const forward_options<T>& options) {
  const transformer_config& config = model.config();
  const std::int64_t b = batch.size(), s = batch.tokens(), d = config.width;
  check::optional_input(backward_name, "d_logits", operands.d_logits, {config.pairs ? b / 2 : b, config.classes});
  check::optional_input(backward_name, "d_last_hidden", operands.d_last_hidden, {b, s, d});
  check::optional_input(backward_name, "d_pooled", operands.d_pooled, {b, d});
  check::optional_input(backward_name, "d_token_logits", operands.d_token_logits, {b, s, config.vocabulary});
  check::optional_output(backward_name, "d_parameters", results.d_parameters, {model.values().size()});
  check::optional_output(backward_name, "d_inputs", results.d_inputs, {b, s, d});
  const view<const T, 3>& t = operands.d_token_logits;
  if (!t.is_absent() && !(t.stride[2] == 1 && t.stride[1] == config.vocabulary && t.stride[0] == s * t.stride[1])) {
    check::fail(backward_name, "d_token_logits", t, "must be densely packed");
  }
  if (options.record == nullptr || options.record->what() == keep::heads) {
    throw invalid_argument("backward: options.record is not one that a forward pass kept for backward");
  }
  const bool is_pooled = options.record->what() == keep::pooled_backward;
  if (is_pooled && !(operands.d_last_hidden.is_absent() && operands.d_token_logits.is_absent())) {
    throw invalid_argument("backward: d_last_hidden and d_token_logits need a record of kind keep::backward");
  }
}

/// What the parts of a backward pass share.
template <class T>
struct backward_pass {
  operation& op;
  const detail::pass<T>& p;
  const detail::pass_plan<T>& plan;
  const detail::parameter_places& places;
  T* d_parameters;  // null: not computed
  detail::outer_weights<T> gradients;

  view<T, 2> matrix(std::int64_t rows) const { return op.take_array<T>(rows, p.config.width); }
};

/// d_pooled (batch, d) += the gradient through the classifier.
template <class T>
void classifier_backward(const backward_pass<T>& b, const view<const T, 2>& d_logits, const view<T, 2>& d_pooled) {
  const transformer_config& config = b.p.config;
  const detail::outer_arrays<T>& arrays = b.plan.arrays;
  const bool has_hidden = config.classifier_hidden != activation::none;
  const auto per_pair = [&](const view<T, 2>& x) {
    return config.pairs ? contiguous(x.data, x.extent[0] / 2, 2 * x.extent[1]) : x;
  };
  const view<T, 2> d_features = has_hidden ? b.matrix(b.plan.batch) : d_pooled;
  linear_backward(
      b.p.ctx,
      {per_pair(has_hidden ? arrays.classifier_activated : arrays.pooled), b.plan.weights.classifier, d_logits},
      {per_pair(d_features), b.gradients.classifier, b.gradients.classifier_bias},
      {.accumulate = true, .accumulate_x = !has_hidden});
  if (!has_hidden) return;
  activation_backward(b.p.ctx, {arrays.classifier_pre, d_features}, {d_features, b.gradients.classifier_hidden_bias},
                      {config.classifier_hidden});
  linear_backward(b.p.ctx, {arrays.pooled, b.plan.weights.classifier_hidden, d_features},
                  {d_pooled, b.gradients.classifier_hidden, {}}, {.accumulate = true, .accumulate_x = true});
}

/// The gradient of what the classifier reads; absent if nothing reaches it. It is d_hidden if the last layer is narrow.
template <class T>
view<T, 2> pooled_backward(const backward_pass<T>& b, const backward_operands<T>& operands,
                           const view<T, 2>& d_hidden) {
  if (operands.d_logits.is_absent() && operands.d_pooled.is_absent()) return {};
  const view<T, 2> d_pooled = b.plan.is_narrow ? d_hidden : b.matrix(b.plan.batch);
  if (operands.d_pooled.is_absent()) {
    detail::fill_zero(b.op, d_pooled);
  } else {
    copy(b.p.ctx, operands.d_pooled, d_pooled);
  }
  if (!operands.d_logits.is_absent()) classifier_backward(b, operands.d_logits, d_pooled);
  return d_pooled;
}

/// d_hidden (last_rows, d) = the gradient of what enters the final norm, or of the last hidden state without one.
template <class T>
void last_state_backward(const backward_pass<T>& b, const backward_operands<T>& operands, const view<T, 2>& d_hidden) {
  context& ctx = b.p.ctx;
  const transformer_config& config = b.p.config;
  const view<T, 2> d_pooled = pooled_backward(b, operands, d_hidden);
  const view<T, 3> by_sequence = contiguous(d_hidden.data, b.plan.batch, b.plan.tokens, config.width);
  if (b.plan.is_narrow) {
    if (d_pooled.is_absent()) detail::fill_zero(b.op, d_hidden);
  } else {
    if (operands.d_last_hidden.is_absent()) {
      detail::fill_zero(b.op, d_hidden);
    } else {
      copy(ctx, operands.d_last_hidden, by_sequence);
    }
    if (!d_pooled.is_absent()) {
      detail::unpool_tokens<T>(ctx, config.pool, d_pooled, b.p.lengths, by_sequence, true);
    }
    if (!operands.d_token_logits.is_absent()) {
      const view<const T, 2> d_logits = contiguous(operands.d_token_logits.data, b.plan.rows(), config.vocabulary);
      linear_backward(ctx, {b.plan.arrays.output, b.plan.weights.token, d_logits}, {d_hidden, b.gradients.token, {}},
                      {.accumulate = true, .accumulate_x = true});
    }
  }
  if (config.order == norm_order::post) return;
  detail::norm_block_backward<T>(b.p, b.plan.weights.final_norm, b.gradients.final_norm, b.plan.arrays.last_sum,
                                 b.plan.arrays.final_norm, d_hidden, {d_hidden});
}

/// Computes again what the record does not keep of a layer. A post-LN layer's output goes to `unused` (rows, d).
template <class T>
void layer_again(const detail::pass<T>& p, const detail::planned_layer<T>& layer, const view<T, 2>& unused) {
  if (p.config.order == norm_order::post) {
    post_norm_layer(p, layer, false, slice(unused, 0, 0, layer.shape.query_rows()), {});
  } else {
    pre_norm_layer(p, layer, {layer.arrays.input});
  }
}

/// From d_hidden to the gradient (rows, d) of hidden state 0, last layer to first. Two arrays take turns; a narrow
/// layer begins with a smaller one.
template <class T>
view<T, 2> layers_backward(const backward_pass<T>& b, bool again, const view<T, 2>& d_hidden) {
  const view<T, 2> d_other = b.matrix(b.plan.rows());
  view<T, 2> d_output = d_hidden, d_input = d_other, d_spare = d_hidden;
  if (b.plan.is_narrow && b.p.config.layers > 1) d_spare = b.matrix(b.plan.rows());
  for (std::int64_t i = b.p.config.layers - 1; i >= 0; --i) {
    const detail::planned_layer<T>& layer = b.plan.layers[static_cast<std::size_t>(i)];
    if (again) layer_again(b.p, layer, d_input);
    const detail::layer_weights<T> gradients(b.places.layers[static_cast<std::size_t>(i)], b.d_parameters);
    layer_backward(b.p, layer, gradients, d_output, d_input);
    d_output = d_input;
    d_input = d_output.data == d_other.data ? d_spare : d_other;
  }
  return d_output;
}

/// From the gradient of hidden state 0 to those of the sum of the embeddings, and of the tables.
template <class T>
void embeddings_backward(const backward_pass<T>& b, const token_batch& batch, const view<T, 2>& d_embedded,
                         const view<T, 3>& d_inputs) {
  const transformer_config& config = b.p.config;
  detail::drop(b.p, d_embedded, config.layers, detail::dropout_place::embeddings);
  if (config.embedding_norm) {
    detail::norm_block_backward<T>(b.p, b.plan.weights.embedding_norm, b.gradients.embedding_norm,
                                   b.plan.arrays.embedded, b.plan.arrays.embedding_norm, d_embedded, {d_embedded});
  }
  if (!d_inputs.is_absent()) {
    copy(b.p.ctx, view<const T, 3>(contiguous(d_embedded.data, b.plan.batch, b.plan.tokens, config.width)), d_inputs);
  }
  if (b.d_parameters != nullptr) {
    embedding_backward(b.p.ctx, {batch.ids(), d_embedded, batch.segments(), b.p.lengths},
                       {b.gradients.token, b.gradients.position, b.gradients.segment}, {config.first_position});
  }
}

template <class T>
sycl::event run(context& ctx, const transformer<T>& model, const token_batch& batch,
                const backward_operands<T>& operands, const backward_results<T>& results,
                const forward_options<T>& options, const events& dependencies) {
  const transformer_config& config = model.config();
  check::device_type<T>(backward_name, ctx);
  check_operands(model, batch, operands, results, options);
  detail::pass_plan<T> plan(model, *options.record, batch.size(), batch.tokens());

  operation op(ctx, backward_name, dependencies);
  const detail::parameter_places& places = detail::places_of(model);
  T* const d_parameters = results.d_parameters.data;
  detail::pass<T> p{ctx, config, batch.device_lengths(), options.training, options.dropout};
  const backward_pass<T> b{op, p, plan, places, d_parameters, {places, d_parameters}};
  p.bias = detail::take_relative_bias(op, config, plan.weights.relative_bias, plan.tokens);
  p.d_relative = b.gradients.relative_bias;
  if (options.record->recomputes()) plan.take_layers_again(op);
  const view<T, 2> d_hidden = b.matrix(plan.last_rows());
  last_state_backward(b, operands, d_hidden);
  const view<T, 2> d_embedded = layers_backward(b, options.record->recomputes(), d_hidden);
  embeddings_backward(b, batch, d_embedded, results.d_inputs);
  return op.submit();
}

}  // namespace

sycl::event backward(context& ctx, const transformer<float>& model, const token_batch& batch,
                     const backward_operands<float>& operands, const backward_results<float>& results,
                     const forward_options<float>& options, const events& dependencies) {
  return run(ctx, model, batch, operands, results, options, dependencies);
}
sycl::event backward(context& ctx, const transformer<double>& model, const token_batch& batch,
                     const backward_operands<double>& operands, const backward_results<double>& results,
                     const forward_options<double>& options, const events& dependencies) {
  return run(ctx, model, batch, operands, results, options, dependencies);
}

}  // namespace nullscope

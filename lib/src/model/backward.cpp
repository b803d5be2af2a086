#include <nullscope/linalg/gemm.hpp>
#include <nullscope/linalg/rows.hpp>
#include <nullscope/model/layers.hpp>
#include <nullscope/model/transformer.hpp>

#include "lib/src/core/checks.hpp"
#include "lib/src/core/fill.hpp"
#include "lib/src/model/layer_backward.hpp"
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

template <class T>
sycl::event run(context& ctx, const transformer<T>& model, const token_batch& batch,
                const backward_operands<T>& operands, const backward_results<T>& results,
                const forward_options<T>& options, const events& dependencies) {
  const transformer_config& config = model.config();
  check::device_type<T>(backward_name, ctx);
  check_operands(model, batch, operands, results, options);
  const std::int64_t b = batch.size(), s = batch.tokens(), rows = b * s, d = config.width;
  forward_views<T> views = options.record->views(b, s);
  const bool is_narrow = options.record->what() == keep::pooled_backward && detail::can_be_narrow(config);
  const std::int64_t last_rows = is_narrow ? b : rows;

  operation op(ctx, backward_name, dependencies);
  const std::span<const parameter> parameters(model.parameters());
  const detail::outer_weights<const T> outer(parameters, model.values().data());
  const detail::outer_weights<T> d_outer(parameters, results.d_parameters.data);
  detail::pass<T> pass{ctx, config, batch.device_lengths(), options.training, options.dropout};
  pass.bias = detail::take_relative_bias(op, config, outer.relative_bias, s);
  pass.d_relative = d_outer.relative_bias;
  const auto zero = [&](const auto& x) { detail::fill_zero(op, x); };

  // To the last hidden state (last_rows, d).
  const view<T, 2> d_hidden = op.take_array<T>(last_rows, d), d_other = op.take_array<T>(rows, d);
  view<T, 2> d_pooled;
  if (!operands.d_logits.is_absent() || !operands.d_pooled.is_absent()) {
    d_pooled = is_narrow ? d_hidden : op.take_array<T>(b, d);
    if (operands.d_pooled.is_absent()) {
      zero(d_pooled);
    } else {
      copy(ctx, operands.d_pooled, d_pooled);
    }
  }
  if (!operands.d_logits.is_absent()) {
    const bool has_hidden = config.classifier_hidden != activation::none;
    const auto per_pair = [&](const auto& x) {
      return config.pairs ? contiguous(x.data, x.extent[0] / 2, 2 * x.extent[1]) : x;
    };
    const view<T, 2> d_features = has_hidden ? op.take_array<T>(b, d) : d_pooled;
    linear_backward(
        ctx, {per_pair(has_hidden ? views.classifier_activated : views.pooled), outer.classifier, operands.d_logits},
        {per_pair(d_features), d_outer.classifier, d_outer.classifier_bias},
        {.accumulate = true, .accumulate_x = !has_hidden});
    if (has_hidden) {
      activation_backward(ctx, {views.classifier_pre, d_features}, {d_features, d_outer.classifier_hidden_bias},
                          {config.classifier_hidden});
      linear_backward(ctx, {views.pooled, outer.classifier_hidden, d_features},
                      {d_pooled, d_outer.classifier_hidden, {}}, {.accumulate = true, .accumulate_x = true});
    }
  }
  if (!is_narrow) {
    if (operands.d_last_hidden.is_absent()) {
      zero(d_hidden);
    } else {
      copy(ctx, operands.d_last_hidden, contiguous(d_hidden.data, b, s, d));
    }
    if (!d_pooled.is_absent()) {
      detail::unpool_tokens<T>(ctx, config.pool, d_pooled, batch.device_lengths(), contiguous(d_hidden.data, b, s, d),
                               true);
    }
    if (!operands.d_token_logits.is_absent()) {
      linear_backward(ctx,
                      {views.output, outer.token, contiguous(operands.d_token_logits.data, rows, config.vocabulary)},
                      {d_hidden, d_outer.token, {}}, {.accumulate = true, .accumulate_x = true});
    }
  } else if (d_pooled.is_absent()) {
    zero(d_hidden);
  }
  if (config.order == norm_order::pre) {
    layer_norm_backward(
        ctx, {views.last_sum, outer.final_norm.gamma, views.final_mean, views.final_inverse_deviation, d_hidden},
        {d_hidden, d_outer.final_norm.gamma, d_outer.final_norm.beta});
  }

  // The layers, last to first; d_hidden and d_other take turns. Gradients of all tokens need (rows, d).
  view<T, 2> d_output = d_hidden, d_input = d_other, d_spare;
  if (!is_narrow) {
    d_spare = d_hidden;
  } else if (config.layers > 1) {
    d_spare = op.take_array<T>(rows, d);
  }
  layer_record<T> again;
  auto take = [&](std::int64_t count) { return op.take<T>(count); };
  for (std::int64_t layer = config.layers - 1; layer >= 0; --layer) {
    const bool is_last = layer + 1 == config.layers;
    const detail::layer_shape shape{b, s, is_last && is_narrow ? 1 : s};
    const detail::layer_weights<const T> weights(parameters, model.values().data(), layer);
    layer_record<T> record = views.layers[static_cast<std::size_t>(layer)];
    if (options.record->recomputes()) {
      if (again.middle.is_absent() || (!shape.is_narrow() && again.q.extent[2] != s)) {
        detail::take_layer(config, shape, true, again, take);
      }
      again.input = record.input;
      const view<T, 2> unused = op.take_array<T>(shape.query_rows(), d);
      detail::layer_forward(pass, weights, shape, layer, {}, again, unused);
      record = again;
    }
    detail::layer_backward(pass, weights, detail::layer_weights<T>(parameters, results.d_parameters.data, layer), shape,
                           layer, record, d_output, d_input);
    d_output = d_input;
    d_input = d_output.data == d_other.data ? d_spare : d_other;
  }

  // The embeddings.
  detail::drop(pass, d_output, config.layers, 0);
  if (config.embedding_norm) {
    layer_norm_backward(
        ctx,
        {views.embedded, outer.embedding_norm.gamma, views.embedding_mean, views.embedding_inverse_deviation, d_output},
        {d_output, d_outer.embedding_norm.gamma, d_outer.embedding_norm.beta});
  }
  if (!results.d_inputs.is_absent())
    copy(ctx, contiguous(static_cast<const T*>(d_output.data), b, s, d), results.d_inputs);
  if (!results.d_parameters.is_absent()) {
    embedding_backward(ctx, {batch.ids(), d_output, batch.segments(), batch.device_lengths()},
                       {d_outer.token, d_outer.position, d_outer.segment}, {config.first_position});
  }
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

#include <nullscope/linalg/gemm.hpp>
#include <nullscope/linalg/rows.hpp>
#include <nullscope/model/layers.hpp>
#include <nullscope/model/transformer.hpp>
#include <utility>

#include "lib/src/core/checks.hpp"
#include "lib/src/model/layer_forward.hpp"
#include "lib/src/model/pool.hpp"

namespace nullscope {
namespace {

constexpr const char* forward_name = "forward";

template <class T>
void check_results(const transformer_config& config, const token_batch& batch, const forward_results<T>& results,
                   const forward_options<T>& options) {
  const std::int64_t b = batch.size(), s = batch.tokens(), d = config.width;
  check::optional_output(forward_name, "hidden", results.hidden, {config.layers + 1, b, s, d});
  check::optional_output(forward_name, "embedded", results.embedded, {b, s, d});
  check::optional_output(forward_name, "pooled", results.pooled, {b, d});
  check::optional_output(forward_name, "logits", results.logits, {config.pairs ? b / 2 : b, config.classes});
  check::optional_output(forward_name, "token_logits", results.token_logits, {b, s, config.vocabulary});
  check::optional_input(forward_name, "inputs", options.inputs, {b, s, d});
  if (!results.logits.is_absent() && config.classes == 0) {
    check::fail(forward_name, "logits", results.logits, "asks for a classifier, which the model does not have");
  }
  if (!results.token_logits.is_absent() && !config.language_model) {
    check::fail(forward_name, "token_logits", results.token_logits, "asks for a language model, which this is not");
  }
  for (const auto& [operand, x] :
       {std::pair("hidden", view<T, 4>(results.hidden)), std::pair("embedded", view<T, 4>(results.embedded))}) {
    const bool is_dense = x.is_absent() || (x.stride[3] == 1 && x.stride[2] == d && x.stride[1] == s * d);
    if (!is_dense) check::fail(forward_name, operand, x, "must have densely packed tokens");
  }
}

/// Hidden state l as (rows, d), if it is asked for.
template <class T>
view<T, 2> hidden_state(const view<T, 4>& hidden, std::int64_t layer) {
  if (hidden.is_absent()) return {};
  return contiguous(&hidden(layer, 0, 0, 0), hidden.extent[1] * hidden.extent[2], hidden.extent[3]);
}

template <class T>
view<T, 2> first_present(std::initializer_list<view<T, 2>> choices) {
  for (const view<T, 2>& choice : choices) {
    if (!choice.is_absent()) return choice;
  }
  return {};
}

/// The classifier on what was pooled (batch, d), or on pairs of it.
template <class T>
void classify(context& ctx, const transformer_config& config, const detail::outer_weights<const T>& outer,
              operation& op, const forward_views<T>& views, const view<const T, 2>& pooled, const view<T, 2>& logits) {
  view<const T, 2> features = pooled;
  if (config.classifier_hidden != activation::none) {
    const bool is_kept = !views.classifier_activated.is_absent();
    const view<T, 2> activated =
        is_kept ? views.classifier_activated : op.take_array<T>(pooled.extent[0], pooled.extent[1]);
    linear(ctx, {pooled, outer.classifier_hidden, outer.classifier_hidden_bias}, {activated, views.classifier_pre},
           {config.classifier_hidden});
    features = activated;
  }
  // A pair's rows follow each other: (batch, d) is (batch / 2, 2 d).
  if (config.pairs) features = contiguous(features.data, features.extent[0] / 2, 2 * features.extent[1]);
  linear(ctx, {features, outer.classifier, outer.classifier_bias}, {logits});
}

template <class T>
sycl::event run(context& ctx, const transformer<T>& model, const token_batch& batch, const forward_results<T>& results,
                const forward_options<T>& options, const events& dependencies) {
  const transformer_config& config = model.config();
  check::device_type<T>(forward_name, ctx);
  check_results(config, batch, results, options);
  const std::int64_t b = batch.size(), s = batch.tokens(), rows = b * s, d = config.width;
  forward_views<T> views;
  if (options.record != nullptr) views = options.record->views(b, s);
  views.layers.resize(static_cast<std::size_t>(config.layers));
  const bool is_whole = options.record == nullptr ? !results.hidden.is_absent() || !results.token_logits.is_absent()
                                                  : options.record->what() != keep::pooled_backward;
  const bool is_narrow = !is_whole && detail::can_be_narrow(config);
  if (is_narrow && !(results.hidden.is_absent() && results.token_logits.is_absent())) {
    throw invalid_argument(
        "forward: a record for pooled_backward keeps one token of the last layer; hidden and "
        "token_logits need all");
  }
  const std::int64_t count = model.values().size();
  check::optional_input(forward_name, "rounded_values", options.rounded_values, {count});
  if (!options.rounded_values.is_absent()) {
    const bool is_dense = options.rounded_values.stride[0] == 1;
    if (!std::is_same_v<T, float> || !is_dense) {
      check::fail(forward_name, "rounded_values", options.rounded_values, "must be contiguous, and the model of float");
    }
    if (options.training || (options.record != nullptr && options.record->what() != keep::heads)) {
      throw invalid_argument("forward: rounded_values are for passes that no backward pass follows");
    }
  }
  const bool needs_pooled = !results.pooled.is_absent() || !results.logits.is_absent();

  operation op(ctx, forward_name, dependencies);
  const std::span<const parameter> parameters(model.parameters());
  const detail::outer_weights<const T> outer(parameters, model.values().data());
  detail::pass<T> pass{ctx, config, batch.device_lengths(), options.training, options.dropout};
  if (!options.rounded_values.is_absent()) {
    pass.values = model.values().data();
    pass.rounded = options.rounded_values.data;
  }
  pass.bias = detail::take_relative_bias(op, config, outer.relative_bias, s);
  const auto matrix = [&](std::int64_t count) { return op.take_array<T>(count, d); };
  const bool is_pre = config.order == norm_order::pre;

  // Hidden state 0. Each state goes to where it is kept, or to one of two arrays in turn.
  view<T, 2> spare[2];
  const auto place_of = [&](std::int64_t layer) {
    const bool has_layer = layer < config.layers;
    const view<T, 2> kept = has_layer ? views.layers[static_cast<std::size_t>(layer)].input : view<T, 2>{};
    const view<T, 2> found = first_present<T>({kept, hidden_state(results.hidden, layer)});
    if (!found.is_absent()) return found;
    view<T, 2>& own = spare[layer % 2];
    if (own.is_absent()) own = matrix(rows);
    return own;
  };
  view<T, 2> hidden = place_of(0);
  const view<T, 2> asked_embedded =
      results.embedded.is_absent() ? view<T, 2>{} : contiguous(results.embedded.data, rows, d);
  const view<T, 2> embedded =
      config.embedding_norm ? first_present<T>({views.embedded, asked_embedded, hidden}) : hidden;
  if (options.inputs.is_absent()) {
    embedding(ctx, {batch.ids(), outer.token, outer.position, outer.segment, batch.segments()}, embedded,
              {config.first_position});
  } else {
    copy(ctx, options.inputs, view<T, 3>(contiguous(embedded.data, b, s, d)));
  }
  if (!asked_embedded.is_absent() && asked_embedded.data != embedded.data) copy(ctx, embedded, asked_embedded);

  // What is not kept of the layers is taken once, and used by all.
  layer_record<T> shared;
  const auto take = [&](std::int64_t count) { return op.take<T>(count); };
  const auto shape_of = [&](std::int64_t layer) {
    return detail::layer_shape{b, s, layer + 1 == config.layers && is_narrow ? 1 : s};
  };
  // Post-LN: where the norm before a layer puts the biases of its q, k and v.
  const auto entrance_of = [&](std::int64_t layer) -> detail::next_projection<T> {
    const detail::layer_shape shape = shape_of(layer);
    if (is_pre || layer == config.layers || shape.is_narrow()) return {};
    const layer_record<T>& kept = views.layers[static_cast<std::size_t>(layer)];
    if (kept.k.is_absent() && shared.middle.is_absent()) detail::take_layer(config, shape, true, shared, take);
    return detail::projection_of(config, detail::layer_weights<const T>(parameters, model.values().data(), layer),
                                 shape, kept.k.is_absent() ? shared : kept);
  };
  detail::next_projection<T> next = config.embedding_norm ? entrance_of(0) : detail::next_projection<T>{};
  if (config.embedding_norm) {
    layer_norm_residual(ctx, {embedded, {}, outer.embedding_norm.gamma, outer.embedding_norm.beta, {}, next.bias},
                        {hidden, {}, views.embedding_mean, views.embedding_inverse_deviation, next.rows},
                        {config.norm_epsilon});
  }
  detail::drop(pass, hidden, config.layers, 0);
  const auto also_to_results = [&](std::int64_t layer, const view<T, 2>& state) {
    const view<T, 2> asked = hidden_state(results.hidden, layer);
    if (!asked.is_absent() && asked.data != state.data) copy(ctx, state, asked);
  };
  also_to_results(0, hidden);

  detail::residual_pair<T> entering;
  view<T, 2> feed_forward[2], sums[2];  // pre-LN: what the next norm adds up
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const bool is_last = layer + 1 == config.layers;
    const detail::layer_shape shape = shape_of(layer);
    layer_record<T> record = views.layers[static_cast<std::size_t>(layer)];
    const bool keeps_all = !record.middle.is_absent(), keeps_heads = !record.k.is_absent();
    if (!keeps_all) {
      if (shared.middle.is_absent() || shape.is_narrow()) detail::take_layer(config, shape, true, shared, take);
      layer_record<T> whole = shared;
      if (keeps_heads) {
        whole.q = record.q;
        whole.k = record.k;
        whole.v = record.v;
        whole.attended = record.attended;
        whole.log_sum_exp = record.log_sum_exp;
        if (config.merge == head_merge::concatenated) {
          whole.merged = contiguous(record.attended.data, shape.query_rows(), config.value_width());
        }
      }
      if (is_pre) {  // the next layer still reads attention_sum
        view<T, 2>& own = sums[layer % 2];
        if (own.is_absent()) own = matrix(rows);
        whole.attention_sum = contiguous(own.data, shape.query_rows(), d);
      }
      record = whole;
    }
    record.input = is_pre && layer > 0 ? place_of(layer) : hidden;
    view<T, 2> output;
    if (is_pre) {
      view<T, 2>& own = feed_forward[layer % 2];
      if (own.is_absent()) own = matrix(rows);
      output = contiguous(own.data, shape.query_rows(), d);
    } else if (is_last) {
      output = first_present<T>({views.output, hidden_state(results.hidden, layer + 1)});
      if (output.is_absent()) output = matrix(shape.query_rows());
    } else {
      output = place_of(layer + 1);
    }
    const detail::layer_weights<const T> weights(parameters, model.values().data(), layer);
    entering.has_projected_bias = !next.rows.is_absent();
    next = entrance_of(layer + 1);
    detail::layer_forward(pass, weights, shape, layer, entering, record, output, next);
    if (is_pre) {
      if (layer > 0) also_to_results(layer, record.input);
      entering = {output, record.attention_sum, detail::norm_adds_bias(pass) ? weights.down_bias : view<const T, 1>{}};
    } else {
      if (output.extent[0] == rows) also_to_results(layer + 1, output);
      hidden = output;
    }
  }
  if (is_pre) {
    const std::int64_t last_rows = is_narrow ? b : rows;
    const view<T, 2> asked = hidden_state(results.hidden, config.layers);
    view<T, 2> output = first_present<T>({views.output, asked});
    if (output.is_absent()) output = matrix(last_rows);
    const bool has_layers = config.layers > 0;
    layer_norm_residual(ctx,
                        {has_layers ? entering.x : view<const T, 2>(hidden), entering.residual, outer.final_norm.gamma,
                         outer.final_norm.beta, entering.bias},
                        {output, views.last_sum, views.final_mean, views.final_inverse_deviation},
                        {config.norm_epsilon});
    if (!asked.is_absent() && asked.data != output.data) copy(ctx, output, asked);
    hidden = output;
  }

  if (needs_pooled) {
    view<T, 2> pooled = hidden;
    if (!is_narrow) {
      pooled = first_present<T>({views.pooled, results.pooled});
      if (pooled.is_absent()) pooled = matrix(b);
      detail::pool_tokens<T>(ctx, config.pool, contiguous(static_cast<const T*>(hidden.data), b, s, d),
                             batch.device_lengths(), pooled);
    }
    if (!results.pooled.is_absent() && results.pooled.data != pooled.data) copy(ctx, pooled, results.pooled);
    if (!results.logits.is_absent()) classify<T>(ctx, config, outer, op, views, pooled, results.logits);
  }
  if (!results.token_logits.is_absent()) {
    gemm(ctx, {hidden, transposed(outer.token)}, contiguous(results.token_logits.data, 1, rows, config.vocabulary));
  }
  return op.submit();
}

}  // namespace

tensor<bfloat16> rounded_values(context& ctx, const transformer<float>& model) {
  tensor<bfloat16> result(ctx, {model.values().size()});
  copy(ctx, model.values(), result).wait_and_throw();
  return result;
}

sycl::event forward(context& ctx, const transformer<float>& model, const token_batch& batch,
                    const forward_results<float>& results, const forward_options<float>& options,
                    const events& dependencies) {
  return run(ctx, model, batch, results, options, dependencies);
}
sycl::event forward(context& ctx, const transformer<double>& model, const token_batch& batch,
                    const forward_results<double>& results, const forward_options<double>& options,
                    const events& dependencies) {
  return run(ctx, model, batch, results, options, dependencies);
}

}  // namespace nullscope

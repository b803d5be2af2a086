#include <nullscope/linalg/gemm.hpp>
#include <nullscope/linalg/rows.hpp>
#include <nullscope/model/layers.hpp>
#include <nullscope/model/transformer.hpp>
#include <utility>

#include "lib/src/core/checks.hpp"
#include "lib/src/model/attention_block.hpp"
#include "lib/src/model/layer_forward.hpp"
#include "lib/src/model/pass_plan.hpp"
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

template <class T>
void check_rounded_values(const transformer<T>& model, const forward_options<T>& options) {
  const view<const bfloat16, 1>& rounded = options.rounded_values;
  check::optional_input(forward_name, "rounded_values", rounded, {model.values().size()});
  if (rounded.is_absent()) return;
  if (!std::is_same_v<T, float> || rounded.stride[0] != 1) {
    check::fail(forward_name, "rounded_values", rounded, "must be contiguous, and the model of float");
  }
  if (options.training || (options.record != nullptr && options.record->what() != keep::heads)) {
    throw invalid_argument("forward: rounded_values are for passes that no backward pass follows");
  }
}

/// The plan, with the arrays that are kept. If only pooled or logits are asked for, the last layer is narrow.
template <class T>
detail::pass_plan<T> plan_of(const transformer<T>& model, const token_batch& batch, const forward_results<T>& results,
                             const forward_options<T>& options) {
  const bool asks_for_all = !results.hidden.is_absent() || !results.token_logits.is_absent();
  if (options.record == nullptr) {
    return {model, batch.size(), batch.tokens(), !asks_for_all && detail::can_be_narrow(model.config())};
  }
  detail::pass_plan<T> plan(model, *options.record, batch.size(), batch.tokens());
  if (plan.is_narrow && asks_for_all) {
    throw invalid_argument(
        "forward: a record for pooled_backward keeps one token of the last layer; hidden and "
        "token_logits need all");
  }
  return plan;
}

/// Hidden state 0, and the sum of the embeddings. Post-LN: whether a norm has prepared the first layer's biases.
template <class T>
bool embed(const detail::pass<T>& p, const detail::pass_plan<T>& plan, const token_batch& batch,
           const view<const T, 3>& inputs, const view<T, 3>& asked) {
  const transformer_config& config = p.config;
  const view<T, 2>& embedded = plan.arrays.embedded;
  if (inputs.is_absent()) {
    embedding(p.ctx, {batch.ids(), plan.weights.token, plan.weights.position, plan.weights.segment, batch.segments()},
              embedded, {config.first_position});
  } else {
    copy(p.ctx, inputs, view<T, 3>(contiguous(embedded.data, plan.batch, plan.tokens, config.width)));
  }
  if (!asked.is_absent() && asked.data != embedded.data) {
    copy(p.ctx, embedded, contiguous(asked.data, plan.rows(), config.width));
  }
  detail::prepared_bias<T> next;
  if (config.embedding_norm) {
    if (config.order == norm_order::post && config.layers > 0) next = prepared_bias_of(config, plan.layers.front());
    detail::norm_block<T>(p, plan.weights.embedding_norm, {embedded},
                          {plan.hidden_state(0), {}, plan.arrays.embedding_norm, next});
  }
  detail::drop(p, plan.hidden_state(0), config.layers, detail::dropout_place::embeddings);
  return !next.is_absent();
}

/// From hidden state 0 to the last one.
template <class T>
void run_layers(const detail::pass<T>& p, const detail::pass_plan<T>& plan, bool is_prepared) {
  if (p.config.order == norm_order::post) {
    for (std::size_t i = 0; i < plan.layers.size(); ++i) {
      const bool is_last = i + 1 == plan.layers.size();
      const detail::prepared_bias<T> next =
          is_last ? detail::prepared_bias<T>{} : prepared_bias_of(p.config, plan.layers[i + 1]);
      post_norm_layer(p, plan.layers[i], is_prepared, plan.hidden_state(plan.layers[i].number + 1), next);
      is_prepared = !next.is_absent();
    }
    return;
  }
  detail::pending_sum<T> entering{plan.hidden_state(0)};
  for (const detail::planned_layer<T>& layer : plan.layers) entering = pre_norm_layer(p, layer, entering);
  detail::norm_block<T>(p, plan.weights.final_norm, entering,
                        {plan.arrays.output, plan.arrays.last_sum, plan.arrays.final_norm});
}

/// The hidden states that are kept go to the results too.
template <class T>
void copy_states(const detail::pass<T>& p, const detail::pass_plan<T>& plan, const forward_results<T>& results) {
  for (std::int64_t layer = 0; layer <= p.config.layers; ++layer) {
    const view<T, 2> asked = detail::asked_state(results, layer), state = plan.hidden_state(layer);
    if (!asked.is_absent() && asked.data != state.data) copy(p.ctx, state, asked);
  }
}

/// The classifier on what was pooled (batch, d), or on pairs of it.
template <class T>
void classify(const detail::pass<T>& p, const detail::pass_plan<T>& plan, const view<T, 2>& logits) {
  const detail::outer_weights<const T>& weights = plan.weights;
  view<const T, 2> features = plan.arrays.pooled;
  if (p.config.classifier_hidden != activation::none) {
    linear(p.ctx, {features, weights.classifier_hidden, weights.classifier_hidden_bias},
           {plan.arrays.classifier_activated, plan.arrays.classifier_pre}, {p.config.classifier_hidden});
    features = plan.arrays.classifier_activated;
  }
  // A pair's rows follow each other: (batch, d) is (batch / 2, 2 d).
  if (p.config.pairs) features = contiguous(features.data, features.extent[0] / 2, 2 * features.extent[1]);
  linear(p.ctx, {features, weights.classifier, weights.classifier_bias}, {logits});
}

/// What is computed from the last hidden state.
template <class T>
void run_heads(const detail::pass<T>& p, const detail::pass_plan<T>& plan, const forward_results<T>& results) {
  const view<T, 2>&last = plan.arrays.output, &pooled = plan.arrays.pooled;
  if (!results.pooled.is_absent() || !results.logits.is_absent()) {
    if (!plan.is_narrow) {
      const view<const T, 3> by_sequence = contiguous(last.data, plan.batch, plan.tokens, p.config.width);
      detail::pool_tokens<T>(p.ctx, p.config.pool, by_sequence, p.lengths, pooled);
    }
    if (!results.pooled.is_absent() && results.pooled.data != pooled.data) copy(p.ctx, pooled, results.pooled);
    if (!results.logits.is_absent()) classify(p, plan, results.logits);
  }
  if (!results.token_logits.is_absent()) {
    gemm(p.ctx, {last, transposed(plan.weights.token)},
         contiguous(results.token_logits.data, 1, plan.rows(), p.config.vocabulary));
  }
}

template <class T>
sycl::event run(context& ctx, const transformer<T>& model, const token_batch& batch, const forward_results<T>& results,
                const forward_options<T>& options, const events& dependencies) {
  const transformer_config& config = model.config();
  check::device_type<T>(forward_name, ctx);
  check_results(config, batch, results, options);
  check_rounded_values(model, options);
  detail::pass_plan<T> plan = plan_of(model, batch, results, options);

  operation op(ctx, forward_name, dependencies);
  detail::pass<T> p{ctx, config, batch.device_lengths(), options.training, options.dropout};
  p.bias = detail::take_relative_bias(op, config, plan.weights.relative_bias, plan.tokens);
  if (!options.rounded_values.is_absent()) {
    p.values = model.values().data();
    p.rounded = options.rounded_values.data;
  }
  plan.take_forward(op, results, options.record);
  const bool is_prepared = embed(p, plan, batch, options.inputs, results.embedded);
  run_layers(p, plan, is_prepared);
  copy_states(p, plan, results);
  run_heads(p, plan, results);
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

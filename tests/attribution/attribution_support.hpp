/// Small models of each kind for the tests of attribution, and Jacobians by finite differences.
#pragma once

#include <cmath>
#include <nullscope/core/tensor.hpp>
#include <nullscope/model/transformer.hpp>
#include <vector>

#include "tests/core/support.hpp"

namespace nullscope::test {

struct attribution_kind {
  const char* name;
  transformer_config config;
};

inline std::vector<attribution_kind> attribution_kinds() {
  transformer_config base;
  base.layers = 3;
  base.width = 10;
  base.heads = 2;
  base.key_size = 3;
  base.value_size = 5;
  base.feed_forward = 13;
  base.vocabulary = 11;
  base.positions = 9;
  base.function = activation::gelu;
  std::vector<attribution_kind> kinds;
  const auto add = [&](const char* name, auto change) {
    transformer_config config = base;
    change(config);
    kinds.push_back({name, config});
  };
  add("bert", [](auto& c) {
    c.segments = 2;
    c.embedding_norm = true;
  });
  add("gpt2", [](auto& c) {
    c.order = norm_order::pre;
    c.causal = true;
    c.function = activation::gelu_tanh;
  });
  add("added_heads", [](auto& c) {
    c.merge = head_merge::added;
    c.value_size = 10;
    c.layers = 2;
  });
  add("causal_post_no_biases", [](auto& c) {
    c.causal = true;
    c.biases = false;
    c.function = activation::tanh;
  });
  add("mpnet", [](auto& c) {
    c.relative_buckets = 6;
    c.relative_distance = 4;
    c.layers = 2;
  });
  add("one_of_everything", [](auto& c) { c.layers = c.heads = c.key_size = c.value_size = c.feed_forward = 1; });
  return kinds;
}

inline std::vector<token_batch::sequence> attribution_sequences() {
  return {{{1, 5, 2, 7, 3}}, {{4, 9}}, {{10, 1, 1, 6}}, {{8}}};
}

/// Parameters of size 0.6, norms around one.
template <class T>
transformer<T> random_model(context& ctx, const transformer_config& config) {
  transformer<T> model(ctx, config);
  std::vector<T> values = random_numbers<T>(model.values().size(), 7);
  for (T& value : values) value *= T(0.6);
  for (const parameter& p : model.parameters()) {
    for (std::int64_t i = 0; p.name.ends_with("gamma") && i < p.size; ++i) {
      values[static_cast<std::size_t>(p.offset + i)] += 1;
    }
  }
  model.values().copy_from(values);
  return model;
}

/// (layers + 1, batch, S, d) for these inputs (batch, S, d).
inline std::vector<double> hidden_states(context& ctx, const transformer<double>& model, const token_batch& batch,
                                         const std::vector<double>& inputs) {
  const std::int64_t b = batch.size(), s = batch.tokens(), d = model.config().width;
  const tensor<double> given(ctx, {b, s, d}, inputs);
  tensor<double> hidden(ctx, {model.config().layers + 1, b, s, d});
  forward(ctx, model, batch, {.hidden = hidden}, {.inputs = given}).wait_and_throw();
  return hidden.to_host();
}

inline std::vector<double> embedded(context& ctx, const transformer<double>& model, const token_batch& batch) {
  tensor<double> result(ctx, {batch.size(), batch.tokens(), model.config().width});
  forward(ctx, model, batch, {.embedded = result}).wait_and_throw();
  return result.to_host();
}

/// The derivatives of all hidden states with respect to component c of input token i of every sequence at once:
/// (layers + 1, batch, S, d).
inline std::vector<double> difference(context& ctx, const transformer<double>& model, const token_batch& batch,
                                      const std::vector<double>& inputs, std::int64_t i, std::int64_t c) {
  constexpr double step = 1e-5;
  const std::int64_t s = batch.tokens(), d = model.config().width;
  const auto moved = [&](double by) {
    std::vector<double> x = inputs;
    for (std::int64_t b = 0; b < batch.size(); ++b) x[static_cast<std::size_t>((b * s + i) * d + c)] += by;
    return hidden_states(ctx, model, batch, x);
  };
  std::vector<double> above = moved(step);
  const std::vector<double> below = moved(-step);
  for (std::size_t n = 0; n < above.size(); ++n) above[n] = (above[n] - below[n]) / (2 * step);
  return above;
}

}  // namespace nullscope::test

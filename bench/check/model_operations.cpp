#include <cmath>
#include <nullscope/attribution/hidden_token_attribution.hpp>
#include <nullscope/attribution/jacobian.hpp>
#include <nullscope/model/layers.hpp>
#include <nullscope/model/transformer.hpp>
#include <nullscope/training/training.hpp>

#include "bench/check/operations.hpp"

namespace nullscope::check_device {
namespace {

outcome check_linear(context& ctx) {
  constexpr std::int64_t rows = 33, in = 65, out = 47;
  const random_operand<float> x(ctx, {rows, in}, 41), w(ctx, {out, in}, 42), bias(ctx, {out}, 43);
  tensor<float> y(ctx, {rows, out});
  linear(ctx, linear_operands<float>{x.device, w.device, bias.device}, linear_results<float>{y},
         {.function = activation::relu})
      .wait_and_throw();
  numbers expected = product(x.host, w.host, rows, out, in, true);
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = std::max(0.0, expected[i] + bias.host[i % out]);
  return {scaled_residual(y.to_host(), expected, std::sqrt(in))};
}

outcome check_cross_entropy(context& ctx) {
  constexpr std::int64_t rows = 19, classes = 7;
  const random_operand<float> logits(ctx, {rows, classes}, 44);
  std::vector<std::int32_t> labels;
  for (std::int32_t i = 0; i < rows; ++i) labels.push_back(i % static_cast<std::int32_t>(classes));
  const tensor<std::int32_t> on_device(ctx, {rows}, labels);
  tensor<float> row_loss(ctx, {rows}), d_logits(ctx, {rows, classes});
  cross_entropy(ctx, cross_entropy_operands<float>{logits.device, on_device},
                cross_entropy_results<float>{.row_loss = row_loss, .d_logits = d_logits})
      .wait_and_throw();
  numbers expected_loss, expected_gradient;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const double* const row = logits.host.data() + i * classes;
    double sum = 0;
    for (std::int64_t c = 0; c < classes; ++c) sum += std::exp(row[c]);
    expected_loss.push_back(std::log(sum) - row[labels[i]]);
    for (std::int64_t c = 0; c < classes; ++c) {
      expected_gradient.push_back((std::exp(row[c]) / sum - (c == labels[i] ? 1 : 0)) / rows);
    }
  }
  return {worse(scaled_residual(row_loss.to_host(), expected_loss, 1),
                scaled_residual(d_logits.to_host(), expected_gradient, 1))};
}

outcome check_adam(context& ctx) {
  constexpr std::int64_t n = 1000;
  const random_operand<float> gradient(ctx, {n}, 45), start(ctx, {n}, 46);
  tensor<float> parameters(ctx, {n}, start.values);
  tensor<float> first(ctx, {n}, std::vector<float>(n)), second(ctx, {n}, std::vector<float>(n));
  const adam_options options;
  adam(ctx, adam_operands<float>{gradient.device}, adam_state<float>{parameters, first, second}, options)
      .wait_and_throw();
  numbers expected = start.host;  // at the first step both means are those of the gradient itself
  for (std::size_t i = 0; i < expected.size(); ++i) {
    expected[i] -= options.learning_rate * gradient.host[i] / (std::abs(gradient.host[i]) + options.epsilon);
  }
  return {scaled_residual(parameters.to_host(), expected, 1)};
}

transformer_config small_config() {
  transformer_config config;
  config.layers = 2;
  config.width = 32;
  config.heads = 4;
  config.key_size = config.value_size = 8;
  config.feed_forward = 64;
  config.vocabulary = 50;
  config.positions = 16;
  return config;
}

const std::vector<token_batch::sequence> one_text{{{3, 14, 15, 9, 26, 5, 35}, {}}};

/// Backward against forward: moving all parameters along the gradient changes a scalar of the output by |gradient|^2.
outcome check_transformer(context& ctx) {
  const transformer_config config = small_config();
  transformer<float> model(ctx, config);
  model.initialise(ctx, 7);
  const token_batch batch(ctx, config, one_text);
  const std::int64_t tokens = batch.tokens(), d = config.width;
  const random_operand<float> direction(ctx, {1, tokens, d}, 47);
  forward_record<float> record(ctx, config, 1, tokens, keep::backward);
  tensor<float> hidden(ctx, {config.layers + 1, 1, tokens, d});
  const std::vector<float> zeros(static_cast<std::size_t>(model.values().size()));
  tensor<float> gradient(ctx, {model.values().size()}, zeros);
  const auto value = [&] {
    forward(ctx, model, batch, {.hidden = hidden}, {.record = &record}).wait_and_throw();
    const std::vector<float> all = hidden.to_host();
    const std::size_t last = all.size() - direction.host.size();
    double sum = 0;
    for (std::size_t i = 0; i < direction.host.size(); ++i)
      sum += direction.host[i] * static_cast<double>(all[last + i]);
    return sum;
  };
  value();
  backward(ctx, model, batch, {.d_last_hidden = direction.device}, {.d_parameters = gradient}, {.record = &record})
      .wait_and_throw();
  const std::vector<float> slope = gradient.to_host(), start = model.values().to_host();
  double squares = 0;
  for (const float g : slope) squares += static_cast<double>(g) * static_cast<double>(g);
  const double step = 1e-2 / std::sqrt(squares);  // small against the curvature, large against rounding
  const auto moved = [&](double sign) {
    std::vector<float> there = start;
    for (std::size_t i = 0; i < there.size(); ++i)
      there[i] += static_cast<float>(sign * step * static_cast<double>(slope[i]));
    model.values().copy_from(there);
    return value();
  };
  const double measured = (moved(1) - moved(-1)) / (2 * step);
  return {std::abs(measured - squares) / squares, 1e-2};
}

/// Attribution in one sweep against the norms of the dense blocks of the Jacobian.
outcome check_attribution(context& ctx) {
  const transformer_config config = small_config();
  transformer<float> model(ctx, config);
  model.initialise(ctx, 8);
  const token_batch batch(ctx, config, one_text);
  const attribution found = hidden_token_attribution(ctx, model, batch, {.layers = {config.layers}})[0];
  const std::int64_t tokens = found.tokens, d = config.width;
  std::vector<jacobian_block> wanted;
  for (std::int64_t j = 0; j < tokens; ++j) {
    for (std::int64_t i = 0; i < tokens; ++i) wanted.push_back({0, config.layers, j, i});
  }
  const std::vector<float> blocks = jacobian_blocks(ctx, model, batch, wanted).to_host();
  numbers expected(wanted.size());
  for (std::size_t b = 0; b < expected.size(); ++b) {
    double squares = 0;
    for (std::int64_t e = 0; e < d * d; ++e) {
      const double x = static_cast<double>(blocks[b * static_cast<std::size_t>(d * d) + static_cast<std::size_t>(e)]);
      squares += x * x;
    }
    expected[b] = std::sqrt(squares);
  }
  return {scaled_residual(std::vector<float>(found.norm.begin(), found.norm.end()), expected, d)};
}

}  // namespace

checked_operations model_operations() {
  return {{"linear layer", "f32", check_linear},
          {"cross-entropy", "f32", check_cross_entropy},
          {"Adam", "f32", check_adam},
          {"transformer, forward and backward", "f32", check_transformer},
          {"hidden token attribution", "f32", check_attribution}};
}

}  // namespace nullscope::check_device

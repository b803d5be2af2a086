#include <nullscope/attention/attention.hpp>
#include <nullscope/model/layers.hpp>
#include <nullscope/model/transformer.hpp>
#include <nullscope/training/training.hpp>

#include "tests/contract/function_row.hpp"

namespace nullscope::test {
namespace {

constexpr std::int64_t rows = 12, in_size = 9, out_size = 6;
constexpr std::int64_t batch = 3, S = 4, d = 9, vocabulary = 20, positions = 16, segment_count = 7, n = 30, heads = 5;

template <class T>
function_table layers(const std::string& type) {
  return {
      {"linear_" + type,
       {in("x", {rows, in_size}), in("w", {out_size, in_size}), in("bias", {out_size}), out("y", {rows, out_size}),
        out("pre_activation", {rows, out_size})},
       [](context& ctx, const arguments& x) {
         linear(ctx, linear_operands<T>{x["x"], x["w"], x["bias"]}, linear_results<T>{x["y"], x["pre_activation"]},
                {activation::gelu});
       }},
      {"linear_backward_" + type,
       {in("x", {rows, in_size}), in("w", {out_size, in_size}), in("d_y", {rows, out_size}),
        out("d_x", {rows, in_size}), out("d_w", {out_size, in_size}), out("d_bias", {out_size})},
       [](context& ctx, const arguments& x) {
         linear_backward(ctx, linear_backward_operands<T>{x["x"], x["w"], x["d_y"]},
                         linear_gradients<T>{x["d_x"], x["d_w"], x["d_bias"]});
       }},
      {"activation_backward_" + type,
       {in("x", {rows, d}), in("d_y", {rows, d}), out("d_x", {rows, d}), out("d_bias", {d})},
       [](context& ctx, const arguments& x) {
         activation_backward(ctx, activation_backward_operands<T>{x["x"], x["d_y"]},
                             activation_gradients<T>{x["d_x"], x["d_bias"]}, {});
       }},
      {"layer_norm_residual_" + type,
       {in("x", {rows, d}), in("residual", {rows, d}), in("gamma", {d}), in("beta", {d}), in("bias", {d}),
        in("next_bias", {out_size}), out("y", {rows, d}), out("sum", {rows, d}), out("mean", {rows}),
        out("inverse_deviation", {rows}), out("next", {rows, out_size})},
       [](context& ctx, const arguments& x) {
         layer_norm_residual(
             ctx,
             layer_norm_residual_operands<T>{x["x"], x["residual"], x["gamma"], x["beta"], x["bias"], x["next_bias"]},
             layer_norm_residual_results<T>{x["y"], x["sum"], x["mean"], x["inverse_deviation"], x["next"]});
       }},
      {"layer_norm_backward_" + type,
       {in("sum", {rows, d}), in("gamma", {d}), in("mean", {rows}), in("inverse_deviation", {rows}),
        in("d_y", {rows, d}), in("d_residual", {rows, d}), out("d_sum", {rows, d}), out("d_gamma", {d}),
        out("d_beta", {d}), out("d_bias", {d})},
       [](context& ctx, const arguments& x) {
         layer_norm_backward(ctx,
                             layer_norm_backward_operands<T>{x["sum"], x["gamma"], x["mean"], x["inverse_deviation"],
                                                             x["d_y"], x["d_residual"]},
                             layer_norm_gradients<T>{x["d_sum"], x["d_gamma"], x["d_beta"], x["d_bias"]});
       }},
  };
}

template <class T>
function_table inputs_and_losses(const std::string& type) {
  return {
      {"relative_bias_" + type,
       {in("weights", {8, heads}), out("table", {heads, 2 * S - 1}).also(1, {1})},
       [](context& ctx, const arguments& x) {
         relative_bias(ctx, x["weights"].as<const T, 2>(), x["table"].as<T, 2>());
       }},
      {"relative_bias_backward_" + type,
       {in("d_table", {heads, 2 * S - 1}).also(1, {1}), out("d_weights", {8, heads})},
       [](context& ctx, const arguments& x) {
         relative_bias_backward(ctx, x["d_table"].as<const T, 2>(), x["d_weights"].as<T, 2>());
       }},
      {"embedding_" + type,
       {in("ids", {batch, S}), in("token", {vocabulary, d}).any(0),
        in("position", {positions, d}).also(0, {positions - 1, positions + 1}),
        in("segment", {segment_count, d}).any(0), in("segments", {batch, S}), out("x", {batch * S, d})},
       [](context& ctx, const arguments& x) {
         embedding(ctx, embedding_operands<T>{x["ids"], x["token"], x["position"], x["segment"], x["segments"]},
                   x["x"].as<T, 2>());
       }},
      {"embedding_backward_" + type,
       {in("ids", {batch, S}), in("d_x", {batch * S, d}), in("segments", {batch, S}), in("lengths", {batch}),
        out("d_token", {vocabulary, d}).any(0),
        out("d_position", {positions, d}).also(0, {positions - 1, positions + 1}),
        out("d_segment", {segment_count, d}).any(0)},
       [](context& ctx, const arguments& x) {
         embedding_backward(ctx, embedding_backward_operands<T>{x["ids"], x["d_x"], x["segments"], x["lengths"]},
                            embedding_gradients<T>{x["d_token"], x["d_position"], x["d_segment"]});
       }},
      {"dropout_" + type,
       {in("x", {rows, d}), out("y", {rows, d})},
       [](context& ctx, const arguments& x) {
         dropout(ctx, x["x"].as<const T, 2>(), x["y"].as<T, 2>(), {.probability = 0.5});
       }},
      {"cross_entropy_" + type,
       {in("logits", {rows, d}), in("labels", {rows}), out("loss", {1}), out("correct", {1}), out("row_loss", {rows}),
        out("d_logits", {rows, d}), out("prediction", {rows})},
       [](context& ctx, const arguments& x) {
         cross_entropy(
             ctx, cross_entropy_operands<T>{x["logits"], x["labels"]},
             cross_entropy_results<T>{x["loss"], x["correct"], x["row_loss"], x["d_logits"], x["prediction"]});
       }},
      {"softmax_backward_" + type,
       {in("y", {3, 5, 8}), in("d_y", {3, 5, 8}), out("d_x", {3, 5, 8})},
       [](context& ctx, const arguments& x) {
         softmax_backward(ctx, softmax_backward_operands<T>{x["y"], x["d_y"]}, x["d_x"].as<T, 3>());
       }},
      {"adam_" + type,
       {in("gradient", {n}), in("gradient_scale", {1}), out("parameters", {n}), out("first", {n}), out("second", {n})},
       [](context& ctx, const arguments& x) {
         adam(ctx, adam_operands<T>{x["gradient"], x["gradient_scale"]},
              adam_state<T>{x["parameters"], x["first"], x["second"]});
       }},
      {"clip_scale_" + type,
       {in("gradient", {n}).any(0), out("norm", {1}), out("scale", {1})},
       [](context& ctx, const arguments& x) {
         clip_scale(ctx, x["gradient"].as<const T, 1>(), clip_results<T>{x["norm"], x["scale"]}, 1);
       }},
  };
}

/// A small language model with a classifier, and a batch of `batch` sequences of S tokens.
transformer_config small_config() {
  transformer_config config;
  config.layers = 2;
  config.width = d;
  config.heads = 3;
  config.key_size = 3;
  config.value_size = 3;
  config.feed_forward = 14;
  config.vocabulary = vocabulary;
  config.positions = positions;
  config.classes = 6;
  config.language_model = true;
  return config;
}

token_batch small_batch(context& ctx) {
  return {ctx, small_config(), std::vector<token_batch::sequence>(batch, {std::vector<std::int32_t>(S, 1)})};
}

std::int64_t parameter_count() {
  std::int64_t count = 0;
  for (const parameter& one : parameters_of(small_config())) count = std::max(count, one.offset + one.size);
  return count;
}

template <class T>
function_table passes(const std::string& type) {
  return {
      {"forward_" + type,
       {out("hidden", {3, batch, S, d}), out("embedded", {batch, S, d}), out("pooled", {batch, d}),
        out("logits", {batch, 6}), out("token_logits", {batch, S, vocabulary}), in("inputs", {batch, S, d})},
       [](context& ctx, const arguments& x) {
         const transformer<T> model(ctx, small_config());
         const token_batch tokens = small_batch(ctx);
         forward(ctx, model, tokens,
                 forward_results<T>{x["hidden"], x["embedded"], x["pooled"], x["logits"], x["token_logits"]},
                 forward_options<T>{.inputs = x["inputs"]})
             .wait();  // what it uses ends here
       }},
      {"backward_" + type,
       {in("d_logits", {batch, 6}), in("d_last_hidden", {batch, S, d}), in("d_pooled", {batch, d}),
        in("d_token_logits", {batch, S, vocabulary}), out("d_parameters", {parameter_count()}),
        out("d_inputs", {batch, S, d})},
       [](context& ctx, const arguments& x) {
         const transformer<T> model(ctx, small_config());
         const token_batch tokens = small_batch(ctx);
         forward_record<T> record(ctx, small_config(), batch, S, keep::backward);
         backward(ctx, model, tokens,
                  backward_operands<T>{x["d_logits"], x["d_last_hidden"], x["d_pooled"], x["d_token_logits"]},
                  backward_results<T>{x["d_parameters"], x["d_inputs"]}, {.record = &record})
             .wait();
       }},
  };
}

function_table rounded() {
  return {
      {"linear_bfloat16",
       {in("x", {rows, in_size}), in("w", {out_size, in_size}), in("bias", {out_size}), out("y", {rows, out_size}),
        out("pre_activation", {rows, out_size})},
       [](context& ctx, const arguments& x) {
         linear(ctx, linear_operands<bfloat16>{x["x"], x["w"], x["bias"]},
                linear_results<float>{x["y"], x["pre_activation"]}, {activation::gelu});
       }},
      {"forward_rounded",
       {out("hidden", {3, batch, S, d}), in("rounded_values", {parameter_count()})},
       [](context& ctx, const arguments& x) {
         const transformer<float> model(ctx, small_config());
         const token_batch tokens = small_batch(ctx);
         forward(ctx, model, tokens, forward_results<float>{.hidden = x["hidden"]},
                 forward_options<float>{.rounded_values = x["rounded_values"]})
             .wait();
       }},
  };
}

template <class T>
function_table of_type(const std::string& type) {
  return joined(joined(layers<T>(type), inputs_and_losses<T>(type)), passes<T>(type));
}

}  // namespace

function_table model_functions(bool fp64) {
  const function_table of_float = joined(of_type<float>("float"), rounded());
  return fp64 ? joined(of_float, of_type<double>("double")) : of_float;
}

}  // namespace nullscope::test

#include <nullscope/attribution/jacobian.hpp>

#include "tests/contract/function_row.hpp"

namespace nullscope::test {
namespace {

constexpr std::int64_t tangents = 2, batch = 4, heads = 6, queries = 9, keys = 12, dk = 15, dv = 18;
constexpr std::int64_t S = 6, d = 9;

/// A small model, and a batch of `batch` sequences of S tokens.
transformer_config small_config() {
  transformer_config config;
  config.layers = 1;
  config.width = d;
  config.heads = 3;
  config.key_size = config.value_size = 3;
  config.feed_forward = 14;
  config.vocabulary = 20;
  config.positions = 16;
  return config;
}

/// Calls call(model, batch, record), and waits: what it uses ends here.
template <class T, class Call>
void with_model(context& ctx, Call call) {
  const transformer<T> model(ctx, small_config());
  const token_batch tokens(ctx, small_config(),
                           std::vector<token_batch::sequence>(batch, {std::vector<std::int32_t>(S, 1), {}}));
  forward_record<T> record(ctx, small_config(), batch, S, keep::backward);
  call(model, tokens, jacobian_options<T>{.record = &record}).wait();
}

template <class T>
function_table rows(const std::string& type) {
  const operand lengths = in("lengths", {batch});
  return {
      {"attention_tangent_" + type,
       {in("q", {batch, heads, queries, dk}), in("k", {batch, heads, keys, dk}), in("v", {batch, heads, keys, dv}),
        in("out", {batch, heads, queries, dv}), in("log_sum_exp", {batch, heads, queries}),
        in("dq", {tangents, batch, heads, queries, dk}), in("dk", {tangents, batch, heads, keys, dk}),
        in("dv", {tangents, batch, heads, keys, dv}), in("bias", {batch, heads, queries, keys}).with_any_strides(),
        lengths, out("d_out", {tangents, batch, heads, queries, dv})},
       [](context& ctx, const arguments& x) {
         attention_tangent(ctx,
                           attention_tangent_operands<T>{x["q"], x["k"], x["v"], x["out"], x["log_sum_exp"], x["dq"],
                                                         x["dk"], x["dv"], x["bias"]},
                           x["d_out"].as<T, 5>(), {.lengths = x["lengths"]});
       }},
      {"jacobian_vector_products_" + type,
       {in("d_inputs", {tangents, batch, S, d}), out("d_hidden", {tangents, batch, S, d})},
       [](context& ctx, const arguments& x) {
         with_model<T>(ctx, [&](const auto& model, const auto& tokens, const auto& options) {
           return jacobian_vector_products(ctx, model, tokens, x["d_inputs"].as<const T, 4>(), x["d_hidden"].as<T, 4>(),
                                           options);
         });
       }},
      {"vector_jacobian_products_" + type,
       {in("d_hidden", {tangents, batch, S, d}), out("d_inputs", {tangents, batch, S, d})},
       [](context& ctx, const arguments& x) {
         with_model<T>(ctx, [&](const auto& model, const auto& tokens, const auto& options) {
           return vector_jacobian_products(ctx, model, tokens, x["d_hidden"].as<const T, 4>(), x["d_inputs"].as<T, 4>(),
                                           options);
         });
       }},
  };
}

}  // namespace

function_table attribution_functions(bool fp64) {
  return fp64 ? joined(rows<float>("float"), rows<double>("double")) : rows<float>("float");
}

}  // namespace nullscope::test

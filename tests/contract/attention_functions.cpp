#include <nullscope/attention/attention.hpp>
#include <nullscope/attention/attention_statistics.hpp>
#include <nullscope/attention/effective_attention.hpp>

#include "tests/contract/function_row.hpp"

namespace nullscope::test {
namespace {

constexpr std::int64_t batch = 3, heads = 5, queries = 8, keys = 11, dk = 14, dv = 17, d = 23, classes = 3;
constexpr std::int64_t c = keys;  // columns of the basis: min(keys, dv, d)

/// Extents of a tile of A: all that fit.
const std::set<std::int64_t> up_to_queries{0, 1, queries - 1}, up_to_keys{0, 1, keys - 1};

const operand q = in("q", {batch, heads, queries, dk}), k = in("k", {batch, heads, keys, dk}),
              v = in("v", {batch, heads, keys, dv}), log_sum_exp = in("log_sum_exp", {batch, heads, queries}),
              lengths = in("lengths", {batch}), bias = in("bias", {batch, heads, queries, keys}).with_any_strides();

/// T is the type of q, k and v.
template <class T>
function_table attention_rows(const std::string& type) {
  using Sum = attention_number<T>;
  return {
      {"attention_" + type,
       {q, k, v, bias, lengths, out("out", {batch, heads, queries, dv}), out("log_sum_exp", {batch, heads, queries}),
        out("sum_of_squares", {batch, heads, queries})},
       [](context& ctx, const arguments& x) {
         attention(ctx, attention_operands<T>{x["q"], x["k"], x["v"], x["bias"]},
                   attention_results<Sum>{x["out"], x["log_sum_exp"], x["sum_of_squares"]}, {.lengths = x["lengths"]});
       }},
      {"attention_backward_" + type,
       {q, k, v, in("out", {batch, heads, queries, dv}), log_sum_exp, in("d_out", {batch, heads, queries, dv}), bias,
        lengths, out("d_q", q.shape), out("d_k", k.shape), out("d_v", v.shape),
        out("d_bias", bias.shape).with_any_strides()},
       [](context& ctx, const arguments& x) {
         attention_backward(
             ctx,
             attention_backward_operands<T>{x["q"], x["k"], x["v"], x["out"], x["log_sum_exp"], x["d_out"], x["bias"]},
             attention_gradients<Sum>{x["d_q"], x["d_k"], x["d_v"], x["d_bias"]}, {.lengths = x["lengths"]});
       }},
      {"attention_received_" + type,
       {q, k, log_sum_exp, bias, lengths, out("received", {batch, heads, keys})},
       [](context& ctx, const arguments& x) {
         attention_received(ctx, attention_scores<T>{x["q"], x["k"], x["log_sum_exp"], x["bias"]},
                            x["received"].as<Sum, 3>(), {.lengths = x["lengths"]});
       }},
  };
}

template <class T>
function_row part_row(const std::string& name, attention_matrix matrix) {
  return {
      name,
      {in("q", {heads, queries, dk}), in("k", {heads, keys, dk}), in("log_sum_exp", {heads, queries}),
       in("p", {heads, queries, 4}), in("u", {heads, keys, 4}), in("bias", {heads, queries, keys}).with_any_strides(),
       out("out", {heads, queries, keys}).also(1, up_to_queries).also(2, up_to_keys)},
      [matrix](context& ctx, const arguments& x) {
        attention_part(ctx, attention_factors<T>{x["q"], x["k"], x["log_sum_exp"], x["p"], x["u"], x["bias"]},
                       x["out"].as<T, 3>(), {.matrix = matrix});
      }};
}

template <class T>
function_table effective_rows(const std::string& type) {
  return {
      {"attention_weights_" + type,
       {q, k, log_sum_exp, bias, lengths,
        out("out", {batch, heads, queries, keys}).also(2, up_to_queries).also(3, up_to_keys)},
       [](context& ctx, const arguments& x) {
         attention_weights(ctx, attention_scores<T>{x["q"], x["k"], x["log_sum_exp"], x["bias"]}, x["out"].as<T, 4>(),
                           {.attention = {.lengths = x["lengths"]}});
       }},
      {"effective_attention_" + type,
       {in("q", {heads, queries, dk}), in("k", {heads, keys, dk}), in("v", {heads, keys, dv}),
        in("h", {heads, dv, d}).also(2, {d - 1, d + 1}), in("bias", {heads, queries, keys}).with_any_strides(),
        out("p", {heads, queries, c}), out("u", {heads, keys, c}), out("s", {heads, c}), out("rank", {heads}),
        out("status", {heads}), out("log_sum_exp", {heads, queries}), out("summary", {heads}),
        out("received_raw", {heads, keys}), out("received_effective", {heads, keys})},
       [](context& ctx, const arguments& x) {
         effective_attention(
             ctx, attention_heads<T>{x["q"], x["k"], x["v"], x["h"], x["bias"]},
             effective_attention_results<T>{x["p"], x["u"], x["s"], x["rank"], x["status"], x["log_sum_exp"],
                                            x["summary"], x["received_raw"], x["received_effective"]});
       }},
      {"effective_attention_by_rows_" + type,
       {in("q", {heads, queries, dk}), in("k", {heads, keys, dk}), in("v", {heads, keys, dv}),
        in("h", {heads, dv, d}).also(2, {d - 1, d + 1}), in("bias", {heads, queries, keys}).with_any_strides(),
        out("p", {heads, queries, c}), out("u", {heads, keys, c}), out("s", {heads, c}), out("rank", {heads}),
        out("status", {heads}), out("log_sum_exp", {heads, queries}), out("summary", {heads}),
        out("received_raw", {heads, keys}), out("received_effective", {heads, keys})},
       [](context& ctx, const arguments& x) {
         effective_attention_by_rows(
             ctx, attention_heads<T>{x["q"], x["k"], x["v"], x["h"], x["bias"]},
             effective_attention_results<T>{x["p"], x["u"], x["s"], x["rank"], x["status"], x["log_sum_exp"],
                                            x["summary"], x["received_raw"], x["received_effective"]});
       }},
  };
}

template <class T>
function_table statistics_rows(const std::string& type) {
  return {
      {"attention_row_moments_" + type,
       {in("q", {heads, queries, dk}), in("k", {heads, keys, dk}), in("u", {heads, keys, 4}).also(2, {1, 3, 5}),
        in("bias", {heads, queries, keys}).with_any_strides(), in("rows", {heads, 5}), out("moments", {heads, 5, 3})},
       [](context& ctx, const arguments& x) {
         attention_row_moments(ctx, attention_row_operands<T>{x["q"], x["k"], x["u"], x["bias"], x["rows"]},
                               x["moments"].as<T, 3>());
       }},
      {"class_sums_" + type,
       {in("x", {heads, queries, keys}), in("queries", {queries}), in("keys", {keys}),
        out("sums", {heads, classes, classes})},
       [](context& ctx, const arguments& x) {
         class_sums(ctx, class_sum_operands<T>{x["x"], {x["queries"], x["keys"]}}, x["sums"].as<T, 3>());
       }},
      {"attention_classes_" + type,
       {in("q", {heads, queries, dk}), in("k", {heads, keys, dk}), in("log_sum_exp", {heads, queries}),
        in("p", {heads, queries, 4}), in("u", {heads, keys, 4}), in("bias", {heads, queries, keys}).with_any_strides(),
        in("queries", {queries}), in("keys", {keys}), out("raw", {heads, classes, classes}).leads(1).leads(2),
        out("effective", {heads, classes, classes}), out("entropy", {heads, queries})},
       [](context& ctx, const arguments& x) {
         attention_classes(ctx,
                           attention_class_operands<T>{{x["q"], x["k"], x["log_sum_exp"], x["p"], x["u"], x["bias"]},
                                                       {x["queries"], x["keys"]}},
                           attention_class_results<T>{x["raw"], x["effective"], x["entropy"]});
       }},
      {"attention_rollout_" + type,
       {in("attention", {heads, keys, keys}).also(0, {1, heads - 1, heads + 1}), in("below", {keys, keys}),
        out("out", {keys, keys})},
       [](context& ctx, const arguments& x) {
         attention_rollout(ctx, rollout_operands<T>{x["attention"], x["below"]}, x["out"].as<T, 2>());
       }},
      part_row<T>("attention_part_raw_" + type, attention_matrix::raw),
      part_row<T>("attention_part_effective_" + type, attention_matrix::effective),
      part_row<T>("attention_part_null_" + type, attention_matrix::null_part),
      {"effective_attention_of_tensors_" + type,
       {in("q", {batch, heads, queries, dk}).also(2, {0, 1, queries - 1, queries + 1}), k, v,
        in("h", {heads, dv, d}).also(2, {1, d - 1, d + 1})},
       [](context& ctx, const arguments& x) {
         effective_attention(ctx, x["q"].make_tensor<T>(ctx), x["k"].make_tensor<T>(ctx), x["v"].make_tensor<T>(ctx),
                             x["h"].make_tensor<T>(ctx));
       },
       function_kind::on_tensors},
      {"effective_attention_of_tensors_with_lengths_" + type,
       {in("q", {batch, heads, keys, dk}), k, v, in("h", {heads, dv, d}).also(2, {1, d - 1, d + 1}),
        in("lengths", {batch}).also(0, {0})},
       [](context& ctx, const arguments& x) {
         const std::vector<std::int64_t> tokens(static_cast<std::size_t>(x["lengths"].extent[0]), 2);
         effective_attention_tensor_options<T> options;
         options.lengths = tokens;
         effective_attention(ctx, x["q"].make_tensor<T>(ctx), x["k"].make_tensor<T>(ctx), x["v"].make_tensor<T>(ctx),
                             x["h"].make_tensor<T>(ctx), options);
       },
       function_kind::on_tensors},
  };
}

template <class T>
function_table float_and_double_rows(const std::string& type) {
  return joined(effective_rows<T>(type), statistics_rows<T>(type));
}

}  // namespace

function_table attention_functions(bool fp64) {
  function_table all = joined(attention_rows<float>("float"), float_and_double_rows<float>("float"));
  all = joined(all, attention_rows<bfloat16>("bfloat16"));
  if (!fp64) return all;
  return joined(all, joined(attention_rows<double>("double"), float_and_double_rows<double>("double")));
}

}  // namespace nullscope::test

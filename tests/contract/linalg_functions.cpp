#include <nullscope/linalg/gemm.hpp>
#include <nullscope/linalg/random.hpp>
#include <nullscope/linalg/rows.hpp>

#include "tests/contract/function_row.hpp"

namespace nullscope::test {
namespace {

template <class From, class To>
function_table conversions(const std::string& types) {
  return {
      {"copy_" + types,
       {in("x", {3, 5, 8}), out("out", {3, 5, 8})},
       [](context& ctx, const arguments& x) { copy(ctx, x["x"].as<const From, 3>(), x["out"].as<To, 3>()); }},
      {"transpose_" + types,
       {in("x", {3, 5, 8}), out("out", {3, 8, 5})},
       [](context& ctx, const arguments& x) { transpose(ctx, x["x"].as<const From, 3>(), x["out"].as<To, 3>()); }},
  };
}

template <class T>
function_table products(const std::string& type) {
  using Sum = product_of<T>;
  return {
      {"gemm_" + type,
       {in("a", {3, 5, 8}).also(0, {1}), in("b", {3, 8, 11}).also(0, {1}), out("c", {3, 5, 11})},
       [](context& ctx, const arguments& x) {
         gemm(ctx, gemm_operands<T>{x["a"], x["b"]}, x["c"].as<Sum, 3>());
       }},
      {"matrix_product_" + type,
       {in("a", {3, 5, 8}).also(0, {1}).any(1), in("b", {3, 8, 11}).also(0, {1}).any(2)},
       [](context& ctx, const arguments& x) {
         matrix_product(ctx, x["a"].make_tensor<T>(ctx), x["b"].make_tensor<T>(ctx));
       },
       function_kind::on_tensors},
  };
}

template <class T>
function_table functions(const std::string& type) {
  return {
      {"fill_uniform_" + type,
       {out("out", {7}).any(0)},
       [](context& ctx, const arguments& x) { fill_uniform(ctx, x["out"].as<T, 1>(), {}); }},
      {"fill_normal_" + type,
       {out("out", {7}).any(0)},
       [](context& ctx, const arguments& x) { fill_normal(ctx, x["out"].as<T, 1>(), {}); }},
      {"scale_" + type,
       {in("x", {3, 5, 8}), out("out", {3, 5, 8})},
       [](context& ctx, const arguments& x) { scale(ctx, x["x"].as<const T, 3>(), x["out"].as<T, 3>(), 2); }},
      {"axpby_" + type,
       {in("x", {3, 5, 8}), in("y", {3, 5, 8}), out("out", {3, 5, 8})},
       [](context& ctx, const arguments& x) {
         axpby(ctx, two_operands<T>{x["x"], x["y"]}, x["out"].as<T, 3>());
       }},
      {"multiply_" + type,
       {in("x", {3, 5, 8}), in("y", {3, 5, 8}), out("out", {3, 5, 8})},
       [](context& ctx, const arguments& x) {
         multiply(ctx, two_operands<T>{x["x"], x["y"]}, x["out"].as<T, 3>());
       }},
      {"apply_" + type,
       {in("x", {3, 5, 8}), out("out", {3, 5, 8})},
       [](context& ctx, const arguments& x) {
         apply(ctx, x["x"].as<const T, 3>(), x["out"].as<T, 3>(), unary_function::gelu);
       }},
      {"softmax_" + type,
       {in("x", {3, 5, 8}), out("y", {3, 5, 8}), out("log_sum_exp", {3, 5})},
       [](context& ctx, const arguments& x) {
         softmax(ctx, x["x"].as<const T, 3>(), {.y = x["y"], .log_sum_exp = x["log_sum_exp"]});
       }},
      {"layer_norm_" + type,
       {in("x", {3, 5, 8}), in("gamma", {8}), in("beta", {8}), out("y", {3, 5, 8}), out("mean", {3, 5}),
        out("inverse_deviation", {3, 5})},
       [](context& ctx, const arguments& x) {
         layer_norm(ctx, layer_norm_operands<T>{x["x"], x["gamma"], x["beta"]},
                    layer_norm_results<T>{x["y"], x["mean"], x["inverse_deviation"]});
       }},
      {"row_reduce_" + type,
       {in("x", {3, 5, 8}).any(2), out("out", {3, 5})},
       [](context& ctx, const arguments& x) {
         row_reduce(ctx, x["x"].as<const T, 3>(), x["out"].as<T, 2>(), row_reduction::sum);
       }},
  };
}

}  // namespace

function_table linalg_functions(bool fp64) {
  function_table all = joined(functions<float>("float"), products<float>("float"));
  all = joined(all, products<bfloat16>("bfloat16"));
  all = joined(all, conversions<float, float>("float_float"));
  all = joined(all, conversions<float, bfloat16>("float_bfloat16"));
  all = joined(all, conversions<bfloat16, bfloat16>("bfloat16_bfloat16"));
  all = joined(all, conversions<bfloat16, float>("bfloat16_float"));
  if (!fp64) return all;
  all = joined(all, joined(functions<double>("double"), products<double>("double")));
  all = joined(all, conversions<float, double>("float_double"));
  all = joined(all, conversions<double, double>("double_double"));
  return joined(all, conversions<double, float>("double_float"));
}

}  // namespace nullscope::test

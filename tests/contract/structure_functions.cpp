#include <nullscope/structure/model_structure.hpp>
#include <nullscope/structure/structure_norm.hpp>
#include <nullscope/structure/task_subspace.hpp>

#include "tests/contract/function_row.hpp"

namespace nullscope::test {
namespace {

constexpr std::int64_t batch = 3, S = 12, d_k = 5, d_v = 6, d = 9, k = 7, rows = 4;

template <class T>
function_table structure_rows(const std::string& type) {
  return {
      {"structure_norm_" + type,
       {in("a", {batch, rows, S}), in("weights", {batch, rows, S}).also(0, {1}), in("b", {batch, rows, S}),
        out("out", {batch})},
       [](context& ctx, const arguments& x) {
         structure_norm(ctx, structure_norm_operands<T>{x["a"], x["weights"], x["b"]}, x["out"].as<T, 1>());
       }},
      {"structure_norm_of_strips_" + type,
       {in("q", {batch, rows, d_k}), in("k", {batch, S, d_k}), in("log_sum_exp", {batch, rows}),
        in("p", {batch, rows, k}), in("u", {batch, S, k}), in("weights", {batch, rows, S}).also(0, {1}),
        out("out", {batch})},
       [](context& ctx, const arguments& x) {
         structure_norm(
             ctx, streamed_structure_operands<T>{{x["q"], x["k"], x["log_sum_exp"], x["p"], x["u"]}, x["weights"]},
             x["out"].as<T, 1>(), {.matrix = attention_matrix::null_part});
       }},
      {"extract_structure_" + type,
       {in("sum", {batch, rows, S}), out("w", {batch, rows, S}), out("emptied", {batch, rows})},
       [](context& ctx, const arguments& x) {
         extract_structure(ctx, x["sum"].as<const T, 3>(), structure_results<T>{x["w"], x["emptied"]}, {});
       }},
      {"subspace_distance_" + type,
       {in("a", {batch, rows, S}), in("b", {batch, rows, S}), in("basis", {batch, S, k}).any(2), out("out", {batch})},
       [](context& ctx, const arguments& x) {
         subspace_distance(ctx, subspace_distance_operands<T>{x["a"], x["b"], x["basis"]}, x["out"].as<T, 1>());
       }},
      {"equivalent_in_" + type,
       {in("a", {batch, rows, S}), in("b", {batch, rows, S}), in("basis", {batch, S, k}).any(2)},
       [](context& ctx, const arguments& x) {
         equivalent_in(ctx, x["a"].make_tensor<T>(ctx), x["b"].make_tensor<T>(ctx), x["basis"].make_tensor<T>(ctx));
       },
       function_kind::on_tensors},
      {"k_means_" + type,
       {in("x", {rows, S}).also(0, {1, rows - 1, rows + 1}).also(1, {1, S - 1, S + 1})},
       [](context& ctx, const arguments& x) { k_means(ctx, x["x"].make_tensor<T>(ctx), {.clusters = 1}); },
       function_kind::on_tensors},
      {"switched_off_" + type,
       {in("basis", {batch, S, k}), in("v", {batch, S, d_v}).also(1, {0, 1, S - 1}),
        in("h", {batch, d_v, d}).also(2, {0, 1, d - 1, d + 1}), out("u", {batch, S, k}), out("dimension", {batch}),
        out("status", {batch})},
       [](context& ctx, const arguments& x) {
         switched_off(ctx, switched_off_operands<T>{x["basis"], x["v"], x["h"]},
                      switched_off_results<T>{x["u"], x["dimension"], x["status"]});
       }},
  };
}

}  // namespace

function_table structure_functions(bool fp64) {
  return fp64 ? joined(structure_rows<float>("float"), structure_rows<double>("double"))
              : structure_rows<float>("float");
}

}  // namespace nullscope::test

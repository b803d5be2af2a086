#include <nullscope/null_space/null_space.hpp>
#include <nullscope/null_space/simplex.hpp>

#include "tests/contract/function_row.hpp"

namespace nullscope::test {
namespace {

constexpr std::int64_t batch = 3, S = 12, d_v = 6, d = 9, k = 6, rows = 4, alternatives_count = 7;

template <class T>
range_results<T> range(const arguments& x) {
  return {x["u"], x["s"], x["rank"], x["status"]};
}

const std::vector<operand> range_operands{out("u", {batch, S, k}), out("s", {batch, k}), out("rank", {batch}),
                                          out("status", {batch})};

std::vector<operand> followed_by(std::vector<operand> first, const std::vector<operand>& more) {
  first.insert(first.end(), more.begin(), more.end());
  return first;
}

template <class T>
function_row simplex_row(const std::string& name, simplex_draw draw) {
  return {name,
          {in("a", {batch, rows, S}), in("basis", {batch, S, k + 1}).any(2), in("rank", {batch}),
           out("out", {batch, alternatives_count, rows, S}).leads(1), out("lambda", {batch, alternatives_count, rows})},
          [draw](context& ctx, const arguments& x) {
            simplex_alternatives(ctx, simplex_operands<T>{x["a"], x["basis"], x["rank"]},
                                 simplex_results<T>{x["out"], x["lambda"]}, {.draw = draw});
          }};
}

template <class T>
function_table null_space_rows(const std::string& type) {
  return {
      {"range_basis_" + type,
       followed_by({in("v", {batch, S, d_v}), in("h", {batch, d_v, d}).also(2, {d - 1, d + 1})}, range_operands),
       [](context& ctx, const arguments& x) {
         range_basis(ctx, head_values<T>{.v = x["v"], .h = x["h"]}, range<T>(x));
       }},
      {"range_basis_without_h_" + type, followed_by({in("v", {batch, S, d_v})}, range_operands),
       [](context& ctx, const arguments& x) { range_basis(ctx, head_values<T>{.v = x["v"]}, range<T>(x)); }},
      {"range_basis_of_tensors_" + type,
       {in("v", {batch, S, d_v}).any(1), in("h", {batch, d_v, d}).any(2)},
       [](context& ctx, const arguments& x) {
         range_basis(ctx, x["v"].make_tensor<T>(ctx), x["h"].make_tensor<T>(ctx));
       },
       function_kind::on_tensors},
      {"range_basis_of_a_tensor_" + type,
       {in("t", {batch, S, d}).any(0).any(1).any(2)},
       [](context& ctx, const arguments& x) { range_basis(ctx, x["t"].make_tensor<T>(ctx)); },
       function_kind::on_tensors},
      {"reduce_projection_" + type,
       {in("h", {batch, d_v, d}).also(2, {d - 1, d + 1}), out("reduced", {batch, d_v, d_v})},
       [](context& ctx, const arguments& x) {
         reduce_projection(ctx, x["h"].as<const T, 3>(), x["reduced"].as<T, 3>());
       }},
      {"append_ones_" + type,
       {in("rank", {batch}), out("basis", {batch, S, k + 1}).any(1).also(2, {1, k, k + 2}),
        out("rank_with_ones", {batch})},
       [](context& ctx, const arguments& x) {
         append_ones(ctx, x["rank"], with_ones_results<T>{x["basis"], x["rank_with_ones"]});
       }},
      {"project_" + type,
       {in("x", {batch, rows, S}), in("u", {batch, S, k}).any(2), out("out", {batch, rows, S})},
       [](context& ctx, const arguments& x) {
         project(ctx, projection_operands<T>{x["x"], x["u"]}, x["out"].as<T, 3>(), row_part::null_space);
       }},
      {"random_null_space_rows_" + type,
       {in("u", {batch, S, k}).any(2), out("out", {batch, rows, S}).any(1)},
       [](context& ctx, const arguments& x) {
         random_null_space_rows(ctx, x["u"].as<const T, 3>(), x["out"].as<T, 3>(), {});
       }},
      {"null_space_basis_" + type,
       {in("u", {batch, S, k}).any(2), in("rank", {batch}), out("null_basis", {batch, S, S})},
       [](context& ctx, const arguments& x) {
         null_space_basis(ctx, null_space_operands<T>{x["u"], x["rank"]}, x["null_basis"].as<T, 3>());
       }},
      {"logit_rank_" + type,
       {in("a", {batch, rows, S}).also(1, {rows - 1, rows + 1, 1}).also(2, {S - 1, S + 1, 1}), out("rank", {batch})},
       [](context& ctx, const arguments& x) { logit_rank(ctx, x["a"].as<const T, 3>(), x["rank"]); }},
      simplex_row<T>("simplex_alternatives_projected_" + type, simplex_draw::projected),
      simplex_row<T>("simplex_alternatives_coefficients_" + type, simplex_draw::coefficients),
      {"check_alternatives_" + type,
       {in("a", {batch, rows, S}), in("basis", {batch, S, k + 1}).any(2),
        in("out", {batch, alternatives_count, rows, S}), out("checks", {batch, alternatives_count})},
       [](context& ctx, const arguments& x) {
         check_alternatives(ctx, alternatives<T>{x["a"], x["basis"], x["out"]}, x["checks"]);
       }},
  };
}

}  // namespace

function_table null_space_functions(bool fp64) {
  return fp64 ? joined(null_space_rows<float>("float"), null_space_rows<double>("double"))
              : null_space_rows<float>("float");
}

}  // namespace nullscope::test

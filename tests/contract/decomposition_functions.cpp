#include <nullscope/linalg/cholesky.hpp>
#include <nullscope/linalg/qr.hpp>
#include <nullscope/linalg/svd.hpp>

#include "tests/contract/function_row.hpp"

namespace nullscope::test {
namespace {

constexpr std::int64_t batch = 3, m = 8, n = 5, k = 11;

/// Values, vectors if asked for, and what is known of each matrix.
template <class T>
function_row svd_row(const std::string& name, svd_vectors vectors) {
  const bool has_vectors = vectors != svd_vectors::none, is_full = vectors == svd_vectors::full;
  function_row row{
      name, {in("a", {batch, m, n}), out("s", {batch, n}), out("status", {batch}), out("sweeps", {batch})}, {}};
  if (has_vectors) {
    row.operands.push_back(out("u", {batch, m, is_full ? m : n}));
    row.operands.push_back(out("vt", {batch, n, n}));
  } else {
    row.operands[0] = std::move(row.operands[0]).also(1, {m - 1, m + 1});  // no result has m rows
  }
  row.call = [=](context& ctx, const arguments& x) {
    svd_results<T> results{.s = x["s"], .status = x["status"], .sweeps = x["sweeps"]};
    if (has_vectors) results.u = x["u"], results.vt = x["vt"];
    svd(ctx, x["a"].as<const T, 3>(), results, {.vectors = vectors});
  };
  return row;
}

template <class T>
function_table functions(const std::string& type) {
  return {
      {"cholesky_" + type,
       {in("a", {batch, n, n}), out("l", {batch, n, n}), out("status", {batch})},
       [](context& ctx, const arguments& x) {
         cholesky(ctx, x["a"].as<const T, 3>(), cholesky_results<T>{.l = x["l"], .status = x["status"]});
       }},
      {"cholesky_solve_" + type,
       {in("l", {batch, n, n}), in("b", {batch, n, k}), out("x", {batch, n, k})},
       [](context& ctx, const arguments& x) {
         cholesky_solve(ctx, cholesky_system<T>{x["l"], x["b"]}, x["x"].as<T, 3>());
       }},
      {"least_squares_" + type,
       {in("a", {batch, m, n}), in("b", {batch, m, k}), out("x", {batch, n, k})},
       [](context& ctx, const arguments& x) {
         least_squares(ctx, least_squares_operands<T>{x["a"], x["b"]}, x["x"].as<T, 3>());
       }},
      {"qr_" + type,
       {in("a", {batch, m, n}), out("q", {batch, m, n}), out("r", {batch, n, n})},
       [](context& ctx, const arguments& x) {
         qr(ctx, x["a"].as<const T, 3>(), qr_results<T>{.q = x["q"], .r = x["r"]});
       }},
      {"qr_of_wide_matrices_" + type,
       {in("a", {batch, n, m}), out("q", {batch, n, n}), out("r", {batch, n, m})},
       [](context& ctx, const arguments& x) {
         qr(ctx, x["a"].as<const T, 3>(), qr_results<T>{.q = x["q"], .r = x["r"]});
       }},
      {"qr_without_q_" + type,
       {in("a", {batch, m, n}).also(1, {m - 1, m + 1}), out("r", {batch, n, n})},
       [](context& ctx, const arguments& x) { qr(ctx, x["a"].as<const T, 3>(), qr_results<T>{.r = x["r"]}); }},
      svd_row<T>("svd_" + type, svd_vectors::thin),
      svd_row<T>("svd_full_" + type, svd_vectors::full),
      svd_row<T>("svd_values_" + type, svd_vectors::none),
      {"svd_of_a_tensor_" + type,
       {in("a", {batch, m, n}).any(0).also(1, {m - 1, m + 1, 1}).also(2, {n - 1, n + 1, 1})},
       [](context& ctx, const arguments& x) { svd(ctx, x["a"].make_tensor<T>(ctx)); },
       function_kind::on_tensors},
      {"numerical_rank_" + type,
       {in("s", {batch, n}), out("rank", {batch})},
       [](context& ctx, const arguments& x) {
         numerical_rank(ctx, x["s"].as<const T, 2>(), x["rank"], {.m = m, .n = n});
       }},
      {"numerical_rank_of_a_tensor_" + type,
       {in("a", {batch, m, n}).any(0).also(1, {m - 1, m + 1, 1}).also(2, {n - 1, n + 1, 1})},
       [](context& ctx, const arguments& x) { numerical_rank(ctx, x["a"].make_tensor<T>(ctx)); },
       function_kind::on_tensors},
  };
}

}  // namespace

function_table decomposition_functions(bool fp64) {
  return fp64 ? joined(functions<float>("float"), functions<double>("double")) : functions<float>("float");
}

}  // namespace nullscope::test

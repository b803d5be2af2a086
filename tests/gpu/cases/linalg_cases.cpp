/// Products and decompositions with several panels, levels and sweeps. Factors are not unique: what they give together
/// is.
#include <nullscope/linalg/cholesky.hpp>
#include <nullscope/linalg/gemm.hpp>
#include <nullscope/linalg/qr.hpp>
#include <nullscope/linalg/rows.hpp>
#include <nullscope/linalg/svd.hpp>
#include <nullscope/null_space/null_space.hpp>

#include "tests/core/support.hpp"
#include "tests/gpu/cases/race_case.hpp"

namespace nullscope::test {
namespace {

template <class T>
tensor<T> numbers(context& ctx, const std::vector<std::int64_t>& shape, std::uint64_t seed) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  std::vector<T> x;
  for (const double number : random_numbers<double>(count, seed))
    x.push_back(static_cast<T>(static_cast<float>(number)));
  return tensor<T>(ctx, shape, x);
}

/// a (batch, m, k) diag(s) b (batch, k, n); without s: a b.
template <class T>
std::vector<double> product(const tensor<T>& a, const tensor<T>& b, const std::vector<T>& s = {}) {
  const std::int64_t batch = a.shape()[0], m = a.shape()[1], k = a.shape()[2], n = b.shape()[2];
  const std::vector<T> x = a.to_host(), y = b.to_host();
  std::vector<double> c(static_cast<std::size_t>(batch * m * n));
  for (std::int64_t i = 0; i < batch * m; ++i) {
    for (std::int64_t l = 0; l < k; ++l) {
      const std::int64_t row = i / m * k + l;
      const double factor = static_cast<double>(x[static_cast<std::size_t>(i * k + l)]) *
                            (s.empty() ? 1.0 : static_cast<double>(s[static_cast<std::size_t>(row)]));
      for (std::int64_t j = 0; j < n; ++j) {
        c[static_cast<std::size_t>(i * n + j)] +=
            factor * static_cast<double>(y[static_cast<std::size_t>(row * n + j)]);
      }
    }
  }
  return c;
}

template <class T>
race_results run_gemm(context& ctx) {
  const tensor<T> a = numbers<T>(ctx, {2, 150, 37}, 1), b = numbers<T>(ctx, {2, 37, 70}, 2);
  tensor<product_of<T>> c(ctx, {2, 150, 70});
  const bool is_own = !ctx.layout().has_vectors();
  gemm(ctx, gemm_operands<T>{a, b}, c, {.path = is_own ? gemm_path::own : gemm_path::automatic}).wait();
  return {{"c", as_doubles(c.to_host())}};
}

/// Diagonally dominant matrices, of which the second has lost its sign.
template <class T>
race_results run_cholesky(context& ctx, std::int64_t n) {
  tensor<T> a = numbers<T>(ctx, {3, n, n}, 8), x = numbers<T>(ctx, {3, n, 5}, 9);
  std::vector<T> host = a.to_host();
  for (std::int64_t i = 0; i < 3 * n; ++i) {
    host[static_cast<std::size_t>(i * n + i % n)] = static_cast<T>(i / n == 1 ? -n : 2 * n);
  }
  a.copy_from(host);
  tensor<T> l(ctx, {3, n, n});
  tensor<std::int32_t> status(ctx, {3});
  cholesky(ctx, a, cholesky_results<T>{.l = l, .status = status}).wait();
  const std::vector<double> factors = as_doubles(l.to_host());
  cholesky_solve(ctx, cholesky_system<T>{a, x}, x).wait();  // a as its own factor: every matrix has a solution
  return {{"first factor", {factors.begin(), factors.begin() + n * n}},
          {"last factor", {factors.begin() + 2 * n * n, factors.end()}},
          {"status", as_doubles(status.to_host())},
          {"x", as_doubles(x.to_host())}};
}

template <class T>
race_results run_qr(context& ctx, std::int64_t m, std::int64_t n) {
  const tensor<T> a = numbers<T>(ctx, {2, m, n}, 3);
  const std::int64_t k = std::min(m, n);
  tensor<T> q(ctx, {2, m, k}), r(ctx, {2, k, n});
  qr(ctx, a, qr_results<T>{.q = q, .r = r}).wait();
  return {{"q r", product(q, r)}};
}

template <class T>
race_results run_svd(context& ctx, std::int64_t m, std::int64_t n, bool has_lost_rank) {
  tensor<T> a = numbers<T>(ctx, {2, m, n}, 4);
  if (has_lost_rank) {  // of the first matrix: its second half repeats the first one
    std::vector<T> x = a.to_host();
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = n / 2; j < n; ++j)
        x[static_cast<std::size_t>(i * n + j)] = x[static_cast<std::size_t>(i * n + j - n / 2)];
    }
    a.copy_from(x);
  }
  const std::int64_t k = std::min(m, n);
  tensor<T> u(ctx, {2, m, k}), s(ctx, {2, k}), vt(ctx, {2, k, n});
  tensor<std::int32_t> status(ctx, {2});
  const bool has_vectors = ctx.layout().has_vectors();
  svd(ctx, a, svd_results<T>{.s = s, .u = u, .vt = vt, .status = status},
      {.algorithm = has_vectors ? svd_algorithm::automatic : svd_algorithm::jacobi})
      .wait();
  return {{"s", as_doubles(s.to_host())},
          {"u s vt", product(u, vt, s.to_host())},
          {"status", as_doubles(status.to_host())}};
}

template <class T>
race_results run_range_basis(context& ctx) {
  const tensor<T> v = numbers<T>(ctx, {2, 130, 17}, 5), h = numbers<T>(ctx, {2, 17, 23}, 6);
  tensor<T> u(ctx, {2, 130, 17}), s(ctx, {2, 17});
  tensor<std::int64_t> rank(ctx, {2});
  tensor<std::int32_t> status(ctx, {2});
  range_basis(ctx, head_values<T>{.v = v, .h = h}, range_results<T>{u, s, rank, status}).wait();
  return {{"s", as_doubles(s.to_host())}, {"rank", as_doubles(rank.to_host())}};
}

/// Rows that are longer than a large group, in a column layout too.
template <class T>
race_results run_rows(context& ctx) {
  const tensor<T> x = numbers<T>(ctx, {3, 5, 1100}, 7);
  tensor<T> y(ctx, {3, 5, 1100}), sums(ctx, {3, 5});
  softmax(ctx, x, softmax_results<T>{.y = y}).wait();
  row_reduce(ctx, x, sums, row_reduction::sum).wait();
  return {{"softmax", as_doubles(y.to_host())}, {"sums", as_doubles(sums.to_host())}};
}

template <class T>
void add_cases(std::vector<race_case>& cases, const std::string& type) {
  const double bound = bound_of<T>(200);
  cases.push_back({"gemm_own_" + type, run_gemm<T>, bound});
  for (const std::int64_t n : {13, 70}) {
    const std::string name = "cholesky_" + std::to_string(n) + "_" + type;
    cases.push_back({name, [n](context& ctx) { return run_cholesky<T>(ctx, n); }, bound});
  }
  for (const auto& [m, n] : {std::pair<std::int64_t, std::int64_t>{33, 17}, {300, 20}, {70, 33}, {20, 45}}) {
    const std::string name = "qr_" + std::to_string(m) + "_" + std::to_string(n) + "_" + type;
    cases.push_back({name, [m = m, n = n](context& ctx) { return run_qr<T>(ctx, m, n); }, bound});
  }
  for (const auto& [m, n] : {std::pair<std::int64_t, std::int64_t>{19, 13}, {37, 37}, {90, 20}}) {
    const std::string name = "svd_" + std::to_string(m) + "_" + std::to_string(n) + "_" + type;
    cases.push_back({name, [m = m, n = n](context& ctx) { return run_svd<T>(ctx, m, n, n == 20); }, bound});
  }
  cases.push_back({"range_basis_of_long_texts_" + type, run_range_basis<T>, bound});
  cases.push_back({"long_rows_" + type, run_rows<T>, bound});
}

}  // namespace

std::vector<race_case> linalg_cases() {
  std::vector<race_case> cases;
  add_cases<float>(cases, "float");
  add_cases<double>(cases, "double");
  cases.push_back({"gemm_own_bfloat16", run_gemm<bfloat16>, bound_of<float>(200)});
  return cases;
}

}  // namespace nullscope::test

#include <nullscope/linalg/svd.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/linalg/svd/rank.hpp"
#include "lib/src/core/batches.hpp"
#include "lib/src/core/checks.hpp"
#include "lib/src/core/dispatch.hpp"
#include "lib/src/core/ranges.hpp"
#include "lib/src/linalg/svd_paths.hpp"

namespace nullscope {
namespace {

using detail::svd_problem;

/// Columns of u and rows of vt.
struct vector_counts {
  std::int64_t u, vt;
};

vector_counts counts(std::int64_t m, std::int64_t n, svd_vectors vectors) {
  switch (vectors) {
    case svd_vectors::thin: return {std::min(m, n), std::min(m, n)};
    case svd_vectors::full: return {m, n};
    default: return {0, 0};
  }
}

template <class T>
void check_operands(const view<const T, 3>& a, const svd_results<T>& results, const svd_options& options) {
  check::input("svd", "a", a);
  const std::int64_t batch = a.extent[0], m = a.extent[1], n = a.extent[2];
  if (m < 1 || n < 1) check::fail("svd", "a", a, "has matrices without elements");
  if (options.max_sweeps < 0) {
    throw invalid_argument(fmt::format("svd: max_sweeps is {}, it must not be negative", options.max_sweeps));
  }
  check::output("svd", "s", results.s);
  check::shape("svd", "s", results.s, {batch, std::min(m, n)});
  check::output("svd", "status", results.status);
  check::shape("svd", "status", results.status, {batch});
  check::optional_output("svd", "sweeps", results.sweeps, {batch});
  const vector_counts columns = counts(m, n, options.vectors);
  if (options.vectors == svd_vectors::none) {
    check::optional_output("svd", "u", results.u, {batch, m, 0});
    check::optional_output("svd", "vt", results.vt, {batch, 0, n});
    return;
  }
  check::output("svd", "u", results.u);
  check::shape("svd", "u", results.u, {batch, m, columns.u});
  check::output("svd", "vt", results.vt);
  check::shape("svd", "vt", results.vt, {batch, columns.vt, n});
}

/// The problem as the paths want it: not wide.
template <class T>
svd_problem<T> make_problem(const view<const T, 3>& a, const svd_results<T>& results, const svd_options& options) {
  const vector_counts columns = counts(a.extent[1], a.extent[2], options.vectors);
  const auto& [s, u, vt, status, sweeps] = results;
  if (a.extent[1] >= a.extent[2]) {
    return {a, s, u, transposed(vt), status, sweeps, columns.u, options.max_sweeps};
  }
  return {transposed(a), s, transposed(vt), u, status, sweeps, columns.vt, options.max_sweeps};
}

/// How many times faster the laned path is than gesdd on as many matrices as it has lanes; see docs/tuning.md.
template <class T>
double gain_over_lapack(const svd_problem<T>& problem) {
  const bool has_vectors = problem.u_columns > 0;
  const double size = 128 / static_cast<double>(problem.n());
  const double gain = has_vectors ? 2.3 * std::pow(size, 1.2) : 4 * std::pow(size, 0.7);
  return std::min(6.0, gain) * (sizeof(T) == 8 ? (has_vectors ? 0.7 : 0.5) : 1.0);
}

/// The fastest algorithm for this problem. Throws unsupported_device if the requested one is not available.
template <class T>
svd_algorithm choose(const context& ctx, const svd_problem<T>& problem, svd_algorithm requested) {
  const bool has_lapack = detail::has_lapack(ctx);
  if (requested == svd_algorithm::lapack && !has_lapack) {
    throw unsupported_device(fmt::format("svd: no LAPACK for {} with {}", ctx.device().name, to_string(ctx.layout())));
  }
  if (requested != svd_algorithm::automatic) return requested;
  if (!ctx.layout().has_vectors()) {
    // One work-group per matrix leaves most of a GPU idle if there are few; a large matrix fits no local memory either.
    constexpr std::int64_t few = 8, large = 512;
    return has_lapack && problem.batch() <= few && problem.n() >= large ? svd_algorithm::lapack : svd_algorithm::jacobi;
  }
  const std::int64_t lanes = detail::lanes_of<T>(ctx.layout());
  const auto rounds = [&](std::int64_t work) { return detail::ceil_div(work, ctx.device().compute_units); };
  const std::int64_t laned_rounds = rounds(detail::ceil_div(problem.batch(), lanes));  // full lanes or not
  if (has_lapack) {
    if (problem.u_columns > std::max<std::int64_t>(512, problem.n())) return svd_algorithm::lapack;  // m x m per lane
    const double laned_cost = static_cast<double>(laned_rounds * lanes) / gain_over_lapack(problem);
    return laned_cost <= static_cast<double>(rounds(problem.batch())) ? svd_algorithm::bidiagonal
                                                                      : svd_algorithm::lapack;
  }
  // Jacobi rotations cost about four times as much, but each matrix has its own core.
  return 4 * rounds(problem.batch()) < laned_rounds * lanes ? svd_algorithm::jacobi : svd_algorithm::bidiagonal;
}

template <class T>
sycl::event decompose(context& ctx, const view<const T, 3>& a, const svd_results<T>& results,
                      const svd_options& options, const events& dependencies) {
  check_operands(a, results, options);
  check::device_type<T>("svd", ctx);
  operation op(ctx, "svd", dependencies);
  if (a.extent[0] == 0) return op.submit();
  const svd_problem<T> problem = make_problem(a, results, options);
  switch (choose(ctx, problem, options.algorithm)) {
    case svd_algorithm::jacobi: detail::run_jacobi_svd(op, problem); break;
    case svd_algorithm::lapack: detail::run_lapack_svd(op, problem); break;
    default: detail::run_laned_svd(op, problem);
  }
  return op.submit();
}

template <class T>
sycl::event rank_by_status(context& ctx, const view<const T, 2>& s, const view<const std::int32_t, 1>& status,
                           const view<std::int64_t, 1>& rank, const numerical_rank_options& options,
                           const events& dependencies) {
  const auto& [m, n, tolerance] = options;
  check::input("numerical_rank", "s", s);
  if (m < 1 || n < 1 || s.extent[1] != std::min(m, n)) {
    check::fail("numerical_rank", "s", s, fmt::format("does not hold the values of {} x {} matrices", m, n));
  }
  check::optional_input("numerical_rank", "status", status, {s.extent[0]});
  check::output("numerical_rank", "rank", rank);
  check::shape("numerical_rank", "rank", rank, {s.extent[0]});
  if (!(tolerance.absolute >= 0) || std::isnan(tolerance.relative)) {
    throw invalid_argument(
        fmt::format("numerical_rank: the tolerances {} (relative) and {} (absolute) must be numbers, "
                    "and the absolute one must not be negative",
                    tolerance.relative, tolerance.absolute));
  }
  check::device_type<T>("numerical_rank", ctx);
  constexpr double most = std::numeric_limits<T>::max();
  const T relative = tolerance.relative < 0 ? static_cast<T>(std::max(m, n)) * std::numeric_limits<T>::epsilon()
                                            : static_cast<T>(std::min(tolerance.relative, most));
  const T absolute = static_cast<T>(std::min(tolerance.absolute, most));
  constexpr std::int64_t items = 64;
  operation op(ctx, "numerical_rank", dependencies);
  op.launch(detail::groups_of(detail::ceil_div(s.extent[0], items), items), 0,
            kernels::svd_rank<T>{s, status, rank, relative, absolute});
  return op.submit();
}

/// Throws computation_error if a matrix did not converge or was not finite.
void expect_converged(const tensor<std::int32_t>& status_on_device, std::int64_t m, std::int64_t n) {
  const std::vector<std::int32_t> status = status_on_device.to_host();
  const std::vector<std::int64_t> failed = failed_ids(status);
  if (failed.empty()) return;
  const bool is_finite = status[static_cast<std::size_t>(failed[0])] == svd_not_converged;
  throw computation_error(
      fmt::format("svd: {} of {} matrices of ({} x {}) failed; the first is matrix {}, which {}", failed.size(),
                  status.size(), m, n, failed[0], is_finite ? "did not converge" : "contains NaN or infinity"),
      failed);
}

}  // namespace

std::vector<std::int64_t> failed_ids(const std::vector<std::int32_t>& status, const std::vector<std::int64_t>& rank) {
  std::vector<std::int64_t> failed;
  for (std::size_t i = 0; i < status.size(); ++i) {
    if (status[i] != svd_converged || (!rank.empty() && rank[i] < 0)) failed.push_back(static_cast<std::int64_t>(i));
  }
  return failed;
}

sycl::event svd(context& ctx, view<const float, 3> a, const svd_results<float>& results, const svd_options& options,
                const events& dependencies) {
  return decompose(ctx, a, results, options, dependencies);
}
sycl::event svd(context& ctx, view<const double, 3> a, const svd_results<double>& results, const svd_options& options,
                const events& dependencies) {
  return decompose(ctx, a, results, options, dependencies);
}

sycl::event numerical_rank(context& ctx, view<const float, 2> s, view<std::int64_t, 1> rank,
                           const numerical_rank_options& options, const events& dependencies) {
  return rank_by_status(ctx, s, {}, rank, options, dependencies);
}
sycl::event numerical_rank(context& ctx, view<const double, 2> s, view<std::int64_t, 1> rank,
                           const numerical_rank_options& options, const events& dependencies) {
  return rank_by_status(ctx, s, {}, rank, options, dependencies);
}

sycl::event detail::rank_of_decomposed(context& ctx, view<const float, 2> s, view<const std::int32_t, 1> status,
                                       view<std::int64_t, 1> rank, const numerical_rank_options& options) {
  return rank_by_status(ctx, s, status, rank, options, {});
}
sycl::event detail::rank_of_decomposed(context& ctx, view<const double, 2> s, view<const std::int32_t, 1> status,
                                       view<std::int64_t, 1> rank, const numerical_rank_options& options) {
  return rank_by_status(ctx, s, status, rank, options, {});
}

template <class Number>
svd_tensors<Number> svd(context& ctx, const tensor<Number>& a, const svd_options& options) {
  const view<const Number, 3> matrices = detail::matrices_of("svd", "a", a);
  const std::int64_t batch = matrices.extent[0], m = matrices.extent[1], n = matrices.extent[2];
  const vector_counts columns = counts(m, n, options.vectors);
  svd_tensors<Number> result{tensor<Number>(ctx, {batch, std::min(m, n)}), tensor<Number>(ctx, {batch, m, columns.u}),
                             tensor<Number>(ctx, {batch, columns.vt, n}), tensor<std::int32_t>(ctx, {batch}),
                             tensor<std::int32_t>(ctx, {batch})};
  operation op(ctx, "svd");
  svd(ctx, matrices, {.s = result.s, .u = result.u, .vt = result.vt, .status = result.status, .sweeps = result.sweeps},
      options);
  op.submit_and_wait();
  expect_converged(result.status, m, n);
  return result;
}

template <class Number>
std::vector<std::int64_t> numerical_rank(context& ctx, const tensor<Number>& a, const rank_tolerance& tolerance) {
  const view<const Number, 3> matrices = detail::matrices_of("numerical_rank", "a", a);
  const std::int64_t batch = matrices.extent[0], m = matrices.extent[1], n = matrices.extent[2];
  tensor<Number> s(ctx, {batch, std::min(m, n)});
  tensor<std::int32_t> status(ctx, {batch});
  tensor<std::int64_t> rank(ctx, {batch});
  operation op(ctx, "numerical_rank");
  svd(ctx, matrices, {.s = s, .status = status}, {.vectors = svd_vectors::none});
  numerical_rank(ctx, s, rank, {m, n, tolerance});
  op.submit_and_wait();
  expect_converged(status, m, n);
  return rank.to_host();
}

template svd_tensors<float> svd(context&, const tensor<float>&, const svd_options&);
template svd_tensors<double> svd(context&, const tensor<double>&, const svd_options&);
template std::vector<std::int64_t> numerical_rank(context&, const tensor<float>&, const rank_tolerance&);
template std::vector<std::int64_t> numerical_rank(context&, const tensor<double>&, const rank_tolerance&);

}  // namespace nullscope

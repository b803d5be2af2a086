#include <algorithm>
#include <cmath>
#include <nullscope/launch.hpp>
#include <nullscope/svd.hpp>

#include "batches.hpp"
#include "checks.hpp"
#include "scratchpad.hpp"
#include "svd_paths.hpp"
#include "svd_rank.hpp"
#include "team_shape.hpp"

namespace nullscope {

namespace {

void check_shape(std::string_view function, std::int64_t batch, std::int64_t m, std::int64_t n,
                 const svd_options& options) {
  if (batch < 0 || m < 1 || n < 1) {
    throw invalid_argument(fmt::format("{}: a ({}, {}, {}) has a matrix without elements", function, batch, m, n));
  }
  if (options.max_sweeps < 0) {
    throw invalid_argument(fmt::format("{}: max_sweeps is {}, it must not be negative", function, options.max_sweeps));
  }
}

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

/// The problem as the paths want it: not wide.
template <class T>
detail::svd_problem<T> make_problem(view<const T, 3> a, view<T, 2> s, view<T, 3> u, view<T, 3> vt,
                                    view<std::int32_t, 1> status, view<std::int32_t, 1> sweeps,
                                    const svd_options& options) {
  const vector_counts columns = counts(a.extent[1], a.extent[2], options.vectors);
  if (a.extent[1] >= a.extent[2]) {
    return {a, s, u, transposed(vt), status, sweeps, columns.u, options.max_sweeps};
  }
  return {transposed(a), s, transposed(vt), u, status, sweeps, columns.vt, options.max_sweeps};
}

/// Which algorithm serves this problem best. Throws unsupported_device if the one that was asked for is not there.
template <class T>
svd_algorithm choose(const sycl::queue& queue, const detail::svd_problem<T>& problem, svd_algorithm asked) {
  const bool has_lapack = detail::lapack_path<T>::serves(queue);
  if (asked == svd_algorithm::lapack && !has_lapack) {
    throw unsupported_device(fmt::format("svd: no LAPACK for {}", properties(queue.get_device()).name));
  }
  if (asked != svd_algorithm::automatic) return asked;
  const device_properties& device = properties(queue.get_device());
  if (device.kind != device_kind::cpu) return svd_algorithm::jacobi;
  const std::int64_t lanes = 64 / static_cast<std::int64_t>(sizeof(T));
  const auto rounds = [&](std::int64_t work) { return detail::ceil_div(work, device.compute_units); };
  const std::int64_t pack_rounds = rounds(detail::ceil_div(problem.batch(), lanes));
  if (has_lapack) {
    // A full pack is `gain` times as fast as gesdd on the same matrices, as measured (f32 with vectors: 6, 4.9, 2.5,
    // 0.9 at n = 32, 64, 128, 256; f64: 4.1, 2.8, 1.7, 0.7; values only: twice that and more). One that is not full
    // costs the same.
    const bool has_vectors = problem.u_columns > 0;
    const double size = 128 / static_cast<double>(problem.n());
    const double gain = std::min(6.0, has_vectors ? 2.3 * std::pow(size, 1.2) : 4 * std::pow(size, 0.7)) *
                        (sizeof(T) == 8 ? (has_vectors ? 0.7 : 0.5) : 1.0);
    if (problem.u_columns > std::max<std::int64_t>(512, problem.n()))
      return svd_algorithm::lapack;  // m x m a lane is much
    const double pack_cost = static_cast<double>(pack_rounds * lanes) / gain;
    return pack_cost <= static_cast<double>(rounds(problem.batch())) ? svd_algorithm::bidiagonal
                                                                     : svd_algorithm::lapack;
  }
  // Jacobi rotations cost some four times as much, but a matrix has a core for itself.
  return 4 * rounds(problem.batch()) < pack_rounds * lanes ? svd_algorithm::jacobi : svd_algorithm::bidiagonal;
}

/// What the path of that algorithm needs.
template <class T>
std::int64_t scratch_bytes(const sycl::queue& queue, const detail::svd_problem<T>& problem, svd_algorithm algorithm) {
  switch (algorithm) {
    case svd_algorithm::jacobi:
      return detail::jacobi_path<T>::scratch_bytes(queue, problem, detail::jacobi_shape::of(queue));
    case svd_algorithm::lapack: return detail::lapack_path<T>::scratch_bytes(queue, problem);
    default: return detail::pack_path<T>::scratch_bytes(queue, problem);
  }
}

template <class T>
void check_operands(const view<const T, 3>& a, const view<T, 2>& s, const view<T, 3>& u, const view<T, 3>& vt,
                    const view<std::int32_t, 1>& status, const view<std::int32_t, 1>& sweeps,
                    const svd_options& options) {
  check::input("svd", "a", a);
  check_shape("svd", a.extent[0], a.extent[1], a.extent[2], options);
  check::output("svd", "s", s);
  check::output("svd", "status", status);
  const std::int64_t batch = a.extent[0], m = a.extent[1], n = a.extent[2];
  const auto expect = [](std::string_view name, const auto& x, std::initializer_list<std::int64_t> shape) {
    if (!std::equal(shape.begin(), shape.end(), x.extent)) {
      check::fail("svd", name, x, fmt::format("should be ({})", fmt::join(shape, ", ")));
    }
  };
  expect("s", s, {batch, std::min(m, n)});
  expect("status", status, {batch});
  if (sweeps.data != nullptr) {
    check::output("svd", "sweeps", sweeps);
    expect("sweeps", sweeps, {batch});
  }
  if (options.vectors == svd_vectors::none) return;
  check::output("svd", "u", u);
  check::output("svd", "vt", vt);
  const vector_counts columns = counts(m, n, options.vectors);
  expect("u", u, {batch, m, columns.u});
  expect("vt", vt, {batch, columns.vt, n});
}

}  // namespace

template <class T>
std::int64_t svd_scratchpad_size(const sycl::queue& queue, std::int64_t batch, std::int64_t m, std::int64_t n,
                                 const svd_options& options) {
  check_shape("svd_scratchpad_size", batch, m, n, options);
  if (batch == 0) return 0;
  const view<const T, 3> a{nullptr, {batch, m, n}, {m * n, n, 1}};
  const auto problem = make_problem<T>(a, {}, {}, {}, {}, {}, options);
  detail::scratchpad_parts parts;
  parts.take_bytes(scratch_bytes(queue, problem, choose(queue, problem, options.algorithm)));
  return parts.bytes();
}

template <class T>
sycl::event svd(sycl::queue& queue, view<const T, 3> a, view<T, 2> s, view<T, 3> u, view<T, 3> vt,
                view<std::int32_t, 1> status, view<std::int32_t, 1> sweeps, std::span<std::byte> scratchpad,
                const svd_options& options, const std::vector<sycl::event>& dependencies) {
  check_operands(a, s, u, vt, status, sweeps, options);
  check::device_type<T>("svd", queue);
  const std::int64_t needed = svd_scratchpad_size<T>(queue, a.extent[0], a.extent[1], a.extent[2], options);
  check::scratchpad("svd", scratchpad, needed);
  if (a.extent[0] == 0) return join(queue, dependencies);
  const auto problem = make_problem(a, s, u, vt, status, sweeps, options);
  const svd_algorithm algorithm = choose(queue, problem, options.algorithm);
  detail::scratchpad_parts parts(scratchpad.data());
  std::byte* const scratch = parts.take<std::byte>(scratch_bytes(queue, problem, algorithm));
  switch (algorithm) {
    case svd_algorithm::jacobi:
      return detail::jacobi_path<T>::run(queue, problem, detail::jacobi_shape::of(queue), scratch, dependencies);
    case svd_algorithm::lapack: return detail::lapack_path<T>::run(queue, problem, scratch, dependencies);
    default: return detail::pack_path<T>::run(queue, problem, scratch, dependencies);
  }
}

template <class T>
sycl::event numerical_rank(sycl::queue& queue, view<const T, 2> s, std::int64_t m, std::int64_t n, T rtol, T atol,
                           view<std::int64_t, 1> rank, const std::vector<sycl::event>& dependencies) {
  return detail::rank_of_decomposed(queue, s, {}, m, n, rtol, atol, rank, dependencies);
}

template <class T>
sycl::event detail::rank_of_decomposed(sycl::queue& queue, view<const T, 2> s, view<const std::int32_t, 1> status,
                                       std::int64_t m, std::int64_t n, T rtol, T atol, view<std::int64_t, 1> rank,
                                       const std::vector<sycl::event>& dependencies) {
  check::input("numerical_rank", "s", s);
  check::output("numerical_rank", "rank", rank);
  check::same_extent("numerical_rank", "s", s, 0, "rank", rank, 0);
  if (m < 1 || n < 1 || s.extent[1] != std::min(m, n)) {
    check::fail("numerical_rank", "s", s, fmt::format("does not hold the values of {} x {} matrices", m, n));
  }
  if (!(atol >= 0) || rtol != rtol) {
    throw invalid_argument(fmt::format("numerical_rank: rtol {} and atol {} must be numbers, atol >= 0", rtol, atol));
  }
  check::device_type<T>("numerical_rank", queue);
  if (rtol < 0) rtol = static_cast<T>(std::max(m, n)) * std::numeric_limits<T>::epsilon();
  constexpr std::int64_t items = 64;
  return launch(queue, detail::groups_of(detail::ceil_div(s.extent[0], items), items), 0,
                kernels::svd_rank<T>{s, status, rank, rtol, atol}, dependencies);
}

template <class T>
svd_result<T> svd(sycl::queue& queue, const tensor<T>& a, const svd_options& options) {
  const view<const T, 3> matrices = detail::as_batch("svd", "a", a);
  const std::int64_t batch = matrices.extent[0], m = matrices.extent[1], n = matrices.extent[2];
  check_shape("svd", batch, m, n, options);
  const vector_counts columns = counts(m, n, options.vectors);
  svd_result<T> result{tensor<T>(queue, {batch, std::min(m, n)}), tensor<T>(queue, {batch, m, columns.u}),
                       tensor<T>(queue, {batch, columns.vt, n}), tensor<std::int32_t>(queue, {batch}),
                       tensor<std::int32_t>(queue, {batch})};
  tensor<std::byte> scratchpad(queue, {svd_scratchpad_size<T>(queue, batch, m, n, options)});
  const detail::wait_on_error guard(queue);
  svd<T>(queue, matrices, result.s.template as<2>(), result.u.template as<3>(), result.vt.template as<3>(),
         result.status.template as<1>(), result.sweeps.template as<1>(), scratchpad.span(), options)
      .wait_and_throw();
  const std::vector<std::int32_t> status = result.status.to_host();
  const std::vector<std::int64_t> failed = detail::failed_ids(status);
  if (!failed.empty()) {
    const bool is_finite = status[static_cast<std::size_t>(failed[0])] == svd_not_converged;
    throw computation_error(
        fmt::format("svd: {} of {} matrices of ({} x {}) failed; the first is matrix {}, which {}", failed.size(),
                    batch, m, n, failed[0], is_finite ? "did not converge" : "holds NaN or infinity"),
        failed);
  }
  return result;
}

template <class T>
std::vector<std::int64_t> numerical_rank(sycl::queue& queue, const tensor<T>& a, T rtol, T atol) {
  const view<const T, 3> matrices = detail::as_batch("numerical_rank", "a", a);
  const svd_result<T> values = svd(queue, a, {.vectors = svd_vectors::none});
  tensor<std::int64_t> rank(queue, {matrices.extent[0]});
  numerical_rank<T>(queue, values.s.template as<2>(), matrices.extent[1], matrices.extent[2], rtol, atol,
                    rank.template as<1>())
      .wait_and_throw();
  return rank.to_host();
}

template std::int64_t svd_scratchpad_size<float>(const sycl::queue&, std::int64_t, std::int64_t, std::int64_t,
                                                 const svd_options&);
template std::int64_t svd_scratchpad_size<double>(const sycl::queue&, std::int64_t, std::int64_t, std::int64_t,
                                                  const svd_options&);
template sycl::event svd(sycl::queue&, view<const float, 3>, view<float, 2>, view<float, 3>, view<float, 3>,
                         view<std::int32_t, 1>, view<std::int32_t, 1>, std::span<std::byte>, const svd_options&,
                         const std::vector<sycl::event>&);
template sycl::event svd(sycl::queue&, view<const double, 3>, view<double, 2>, view<double, 3>, view<double, 3>,
                         view<std::int32_t, 1>, view<std::int32_t, 1>, std::span<std::byte>, const svd_options&,
                         const std::vector<sycl::event>&);
template sycl::event numerical_rank(sycl::queue&, view<const float, 2>, std::int64_t, std::int64_t, float, float,
                                    view<std::int64_t, 1>, const std::vector<sycl::event>&);
template sycl::event numerical_rank(sycl::queue&, view<const double, 2>, std::int64_t, std::int64_t, double, double,
                                    view<std::int64_t, 1>, const std::vector<sycl::event>&);
template sycl::event detail::rank_of_decomposed(sycl::queue&, view<const float, 2>, view<const std::int32_t, 1>,
                                                std::int64_t, std::int64_t, float, float, view<std::int64_t, 1>,
                                                const std::vector<sycl::event>&);
template sycl::event detail::rank_of_decomposed(sycl::queue&, view<const double, 2>, view<const std::int32_t, 1>,
                                                std::int64_t, std::int64_t, double, double, view<std::int64_t, 1>,
                                                const std::vector<sycl::event>&);
template svd_result<float> svd(sycl::queue&, const tensor<float>&, const svd_options&);
template svd_result<double> svd(sycl::queue&, const tensor<double>&, const svd_options&);
template std::vector<std::int64_t> numerical_rank(sycl::queue&, const tensor<float>&, float, float);
template std::vector<std::int64_t> numerical_rank(sycl::queue&, const tensor<double>&, double, double);

}  // namespace nullscope

/// svd, numerical_rank, qr: a (..., m, n), a batch of matrices over all dimensions before the last two.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <nullscope/core/errors.hpp>
#include <nullscope/linalg/qr.hpp>
#include <nullscope/linalg/svd.hpp>

#include "arrays.hpp"
#include "bindings.hpp"

namespace nullscope::python {
namespace {

constexpr int any_dimensions = 1 << 20;

svd_vectors vectors_named(const std::string& name) {
  if (name == "thin") return svd_vectors::thin;
  if (name == "full") return svd_vectors::full;
  if (name == "none") return svd_vectors::none;
  throw invalid_argument(fmt::format("svd: vectors is \"{}\"; expected \"thin\", \"full\" or \"none\"", name));
}

svd_algorithm algorithm_named(const std::string& name) {
  if (name == "automatic") return svd_algorithm::automatic;
  if (name == "bidiagonal") return svd_algorithm::bidiagonal;
  if (name == "jacobi") return svd_algorithm::jacobi;
  if (name == "lapack") return svd_algorithm::lapack;
  throw invalid_argument(
      fmt::format("svd: algorithm is \"{}\"; expected \"automatic\", \"bidiagonal\", \"jacobi\" or \"lapack\"", name));
}

/// Throws computation_error unless all matrices converged.
void require_success(const char* function, const std::int32_t* status, std::int64_t count) {
  if (std::all_of(status, status + count, [](std::int32_t one) { return one == svd_converged; })) return;
  const std::vector<std::int64_t> failed = failed_ids({status, status + count});
  throw computation_error(fmt::format("{}: {} of {} matrices hold NaN or infinity, or did not converge: {}", function,
                                      failed.size(), count, fmt::join(failed, ", ")),
                          failed);
}

template <class T>
nb::tuple svd_of(device_handle& where, array& a, const svd_options& options) {
  const placement place = a.place();
  const std::int64_t m = a.extent(2), n = a.extent(1), k = std::min(m, n);
  const shape_type batch = a.leading(2);
  result<T> s, u, vt;
  without_gil(where, [&](context& ctx) {
    const view<const T, 3> operand = a.as<T, 3>(where, ctx);
    const bool is_full = options.vectors == svd_vectors::full;
    s = {where, ctx, place, joined(batch, {k})};
    result<std::int32_t> status(where, ctx, {}, batch);
    svd_results<T> results{.s = s.template as<2>(), .status = status.as<1>()};
    if (options.vectors != svd_vectors::none) {
      u = {where, ctx, place, joined(batch, {m, is_full ? m : k})};
      vt = {where, ctx, place, joined(batch, {is_full ? n : k, n})};
      results.u = u.template as<3>();
      results.vt = vt.template as<3>();
    }
    svd(ctx, operand, results, options).wait_and_throw();
    status.bring_to_host(ctx, {});
    require_success("svd", status.data(), status.size());
    s.bring_to_host(ctx, place);
    if (options.vectors == svd_vectors::none) return;
    u.bring_to_host(ctx, place);
    vt.bring_to_host(ctx, place);
  });
  return nb::make_tuple(u.release(place), s.release(place), vt.release(place));
}

template <class T>
nb::object numerical_rank_of(device_handle& where, array& a, const rank_tolerance& tolerance) {
  const std::int64_t m = a.extent(2), n = a.extent(1);
  result<std::int64_t> rank;
  without_gil(where, [&](context& ctx) {
    const view<const T, 3> operand = a.as<T, 3>(where, ctx);
    const result<T> s(where, ctx, {}, joined(a.leading(2), {std::min(m, n)}));
    result<std::int32_t> status(where, ctx, {}, a.leading(2));
    rank = {where, ctx, {}, a.leading(2)};
    svd(ctx, operand, svd_results<T>{.s = s.template as<2>(), .status = status.as<1>()}, {.vectors = svd_vectors::none})
        .wait_and_throw();
    status.bring_to_host(ctx, {});
    require_success("numerical_rank", status.data(), status.size());
    numerical_rank(ctx, s.template as<2>(), rank.as<1>(), {m, n, tolerance}).wait_and_throw();
    rank.bring_to_host(ctx, {});
  });
  return rank.release({});
}

template <class T>
nb::tuple qr_of(device_handle& where, array& a, bool with_q) {
  const placement place = a.place();
  const std::int64_t m = a.extent(2), n = a.extent(1), k = std::min(m, n);
  result<T> q, r;
  without_gil(where, [&](context& ctx) {
    const view<const T, 3> operand = a.as<T, 3>(where, ctx);
    r = {where, ctx, place, joined(a.leading(2), {k, n})};
    qr_results<T> results{.r = r.template as<3>()};
    if (with_q) {
      q = {where, ctx, place, joined(a.leading(2), {m, k})};
      results.q = q.template as<3>();
    }
    qr(ctx, operand, results).wait_and_throw();
    r.bring_to_host(ctx, place);
    if (with_q) q.bring_to_host(ctx, place);
  });
  return nb::make_tuple(q.release(place), r.release(place));
}

}  // namespace

void bind_linear_algebra(nb::module_& m) {
  m.def(
      "svd",
      [](device_handle& where, nb::handle given, const std::string& vectors, const std::string& algorithm) {
        array a("svd", "a", given);
        a.require_dimensions(2, any_dimensions);
        const svd_options options{vectors_named(vectors), algorithm_named(algorithm)};
        return by_type(a, [&](auto number) { return svd_of<decltype(number)>(where, a, options); });
      },
      nb::arg("device"), nb::arg("a").none(), nb::arg("vectors"), nb::arg("algorithm"));
  m.def(
      "numerical_rank",
      [](device_handle& where, nb::handle given, double relative, double absolute) {
        array a("numerical_rank", "a", given);
        a.require_dimensions(2, any_dimensions);
        return by_type(a, [&](auto number) {
          return numerical_rank_of<decltype(number)>(where, a, {relative, absolute});
        });
      },
      nb::arg("device"), nb::arg("a").none(), nb::arg("relative"), nb::arg("absolute"));
  m.def(
      "qr",
      [](device_handle& where, nb::handle given, bool with_q) {
        array a("qr", "a", given);
        a.require_dimensions(2, any_dimensions);
        return by_type(a, [&](auto number) { return qr_of<decltype(number)>(where, a, with_q); });
      },
      nb::arg("device"), nb::arg("a").none(), nb::arg("with_q"));
}

}  // namespace nullscope::python

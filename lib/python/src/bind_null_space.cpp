/// range_basis, null_space_project, simplex_alternatives, logit_rank: batches over all dimensions before the last two.
#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <nullscope/core/errors.hpp>
#include <nullscope/null_space/null_space.hpp>
#include <nullscope/null_space/simplex.hpp>
#include <optional>

#include "arrays.hpp"
#include "bindings.hpp"

namespace nullscope::python {
namespace {

constexpr int any_dimensions = 1 << 20;

/// An operand that may be None.
std::optional<array> optional_array(const char* function, const char* name, nb::handle given, const array& like) {
  if (given.is_none()) return std::nullopt;
  std::optional<array> result(std::in_place, function, name, given);
  result->require_type_of(like);
  return result;
}

/// (basis, s, rank, rank_with_ones): the last one None without ones.
template <class T>
nb::tuple range_basis_of(device_handle& where, array& v, std::optional<array>& h, const range_options& options) {
  const placement place = v.place();
  const shape_type batch = v.leading(2);
  const std::int64_t tokens = v.extent(2);
  std::int64_t k = std::min(tokens, v.extent(1));
  if (h) k = std::min(k, h->extent(1));
  result<T> basis, s;
  result<std::int64_t> rank, with_ones;
  without_gil(where, [&](context& ctx) {
    head_values<T> operands{v.as<T, 3>(where, ctx)};
    if (h) operands.h = h->as<T, 3>(where, ctx, &batch);
    basis = {where, ctx, place, joined(batch, {tokens, k + 1})};
    s = {where, ctx, place, joined(batch, {k})};
    rank = {where, ctx, {}, batch};
    with_ones = {where, ctx, {}, batch};
    result<std::int32_t> status(where, ctx, {}, batch);
    basis.fill_zero(ctx);
    const view<T, 3> columns = basis.template as<3>();
    range_basis(ctx, operands,
                range_results<T>{slice(columns, 2, 0, k), s.template as<2>(), rank.as<1>(), status.as<1>()},
                options.tolerance)
        .wait_and_throw();
    if (options.with_ones) append_ones(ctx, rank.as<1>(), {columns, with_ones.as<1>()}).wait_and_throw();
    for (auto* numbers : {&rank, &with_ones}) numbers->bring_to_host(ctx, {});
    status.bring_to_host(ctx, {});
    require_converged("range_basis", status, rank);
    basis.bring_to_host(ctx, place);
    s.bring_to_host(ctx, place);
  });
  return nb::make_tuple(basis.release(place), s.release(place), rank.release({}),
                        options.with_ones ? with_ones.release({}) : nb::none());
}

template <class T>
nb::object project_of(device_handle& where, array& x, array& basis, row_part part) {
  const placement place = x.place();
  const shape_type batch = x.leading(2);
  result<T> out;
  without_gil(where, [&](context& ctx) {
    const projection_operands<T> operands{x.as<T, 3>(where, ctx), basis.as<T, 3>(where, ctx, &batch)};
    out = {where, ctx, place, x.shape()};
    project(ctx, operands, out.template as<3>(), part).wait_and_throw();
    out.bring_to_host(ctx, place);
  });
  return out.release(place);
}

/// (weights, lambda).
template <class T>
nb::tuple alternatives_of(device_handle& where, array& a, array& basis, array& rank, std::int64_t count,
                          const simplex_options& options) {
  const placement place = a.place();
  const shape_type batch = a.leading(2);
  const std::int64_t rows = a.extent(2), tokens = a.extent(1);
  result<T> out, lambda;
  without_gil(where, [&](context& ctx) {
    const view<const std::int64_t, 2> ranks = rank.as<std::int64_t, 2>(where, ctx);
    const simplex_operands<T> operands{a.as<T, 3>(where, ctx), basis.as<T, 3>(where, ctx, &batch), merge(ranks, 0)};
    out = {where, ctx, place, joined(batch, {count, rows, tokens})};
    lambda = {where, ctx, place, joined(batch, {count, rows})};
    simplex_alternatives(ctx, operands, {out.template as<4>(), lambda.template as<3>()}, options).wait_and_throw();
    out.bring_to_host(ctx, place);
    lambda.bring_to_host(ctx, place);
  });
  return nb::make_tuple(out.release(place), lambda.release(place));
}

template <class T>
nb::object logit_rank_of(device_handle& where, array& a, const rank_tolerance& tolerance) {
  result<std::int64_t> rank;
  without_gil(where, [&](context& ctx) {
    const view<const T, 3> operand = a.as<T, 3>(where, ctx);
    rank = {where, ctx, {}, a.leading(2)};
    logit_rank(ctx, operand, rank.as<1>(), tolerance).wait_and_throw();
    rank.bring_to_host(ctx, {});
  });
  return rank.release({});
}

nb::object bound_range_basis(device_handle& where, nb::handle given, nb::handle projection, double relative,
                             double absolute, bool with_ones) {
  array v("range_basis", "v", given);
  v.require_dimensions(2, any_dimensions);
  std::optional<array> h = optional_array("range_basis", "h", projection, v);
  if (h) h->require_dimensions(2, any_dimensions);
  const range_options options{{relative, absolute}, with_ones};
  return by_type(v, [&](auto number) { return range_basis_of<decltype(number)>(where, v, h, options); });
}

nb::object bound_project(device_handle& where, nb::handle given, nb::handle given_basis, bool to_range) {
  array x("null_space_project", "x", given), basis("null_space_project", "basis", given_basis);
  for (const array* one : {&x, &basis}) one->require_dimensions(2, any_dimensions);
  basis.require_type_of(x);
  const row_part part = to_range ? row_part::range : row_part::null_space;
  return by_type(x, [&](auto number) { return project_of<decltype(number)>(where, x, basis, part); });
}

nb::object bound_alternatives(device_handle& where, nb::handle given, nb::handle given_basis, nb::handle given_rank,
                              std::int64_t count, double share, std::uint64_t seed, bool by_coefficients) {
  const char* function = "simplex_alternatives";
  array a(function, "a", given), basis(function, "basis", given_basis), rank(function, "rank", given_rank);
  for (const array* one : {&a, &basis}) one->require_dimensions(2, any_dimensions);
  basis.require_type_of(a);
  if (count < 1) throw invalid_argument(fmt::format("{}: a count of {}; expected at least 1", function, count));
  const simplex_options options{
      {seed, 0}, by_coefficients ? simplex_draw::coefficients : simplex_draw::projected, share};
  return by_type(a,
                 [&](auto number) { return alternatives_of<decltype(number)>(where, a, basis, rank, count, options); });
}

}  // namespace

void bind_null_space(nb::module_& m) {
  m.def("range_basis", &bound_range_basis, nb::arg("device"), nb::arg("v").none(), nb::arg("h").none(),
        nb::arg("relative"), nb::arg("absolute"), nb::arg("with_ones"));
  m.def("project", &bound_project, nb::arg("device"), nb::arg("x").none(), nb::arg("basis").none(),
        nb::arg("to_range"));
  m.def("simplex_alternatives", &bound_alternatives, nb::arg("device"), nb::arg("a").none(), nb::arg("basis").none(),
        nb::arg("rank").none(), nb::arg("count"), nb::arg("share"), nb::arg("seed"), nb::arg("by_coefficients"));
  m.def(
      "logit_rank",
      [](device_handle& where, nb::handle given, double relative, double absolute) {
        array a("logit_rank", "a", given);
        a.require_dimensions(2, any_dimensions);
        return by_type(a, [&](auto number) { return logit_rank_of<decltype(number)>(where, a, {relative, absolute}); });
      },
      nb::arg("device"), nb::arg("a").none(), nb::arg("relative"), nb::arg("absolute"));
}

}  // namespace nullscope::python

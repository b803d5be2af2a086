#include <nullscope/simplex.hpp>

#include <nullscope/gemm.hpp>
#include <nullscope/launch.hpp>
#include <nullscope/null_space.hpp>

#include "checks.hpp"
#include "scratchpad.hpp"
#include "simplex_check.hpp"
#include "simplex_rows.hpp"
#include "team_shape.hpp"

namespace nullscope {
namespace {

template <class T>
bool is_dense(const view<T, 4>& x) {
  const auto dense = contiguous(x.data, x.extent[0], x.extent[1], x.extent[2], x.extent[3]);
  return x.empty() || std::equal(dense.stride, dense.stride + 4, x.stride);
}

/// (heads, alternatives, rows, S) with the alternatives' rows one after the other: (heads, alternatives * rows, S).
template <class T>
view<T, 3> all_rows(const view<T, 4>& x) {
  return contiguous(x.data, x.extent[0], x.extent[1] * x.extent[2], x.extent[3]);
}

/// a (heads, rows, S), basis (heads, S, columns) and the alternatives (heads, alternatives, rows, S) agree.
template <class T, class Alternative>
void check_operands(const char* function, const sycl::queue& queue, const view<const T, 3>& a,
                    const view<const T, 3>& basis, const view<Alternative, 4>& alternatives) {
  check::device_type<T>(function, queue);
  check::input(function, "a", a);
  check::input(function, "basis", basis);
  check::input(function, "out", alternatives);
  check::same_extent(function, "a", a, 0, "basis", basis, 0);
  check::same_extent(function, "a", a, 2, "basis", basis, 1);
  check::same_extent(function, "a", a, 0, "out", alternatives, 0);
  check::same_extent(function, "a", a, 1, "out", alternatives, 2);
  check::same_extent(function, "a", a, 2, "out", alternatives, 3);
  if (!is_dense(alternatives)) check::fail(function, "out", alternatives, "is not densely packed");
}

template <class T>
struct draw_memory {
  view<T, 3> null_basis;    // (heads, S, S); only for coefficients
  view<T, 3> coefficients;  // (heads, alternatives * rows, S or columns)
  std::span<std::byte> work;
  std::int64_t bytes;
};

template <class T>
draw_memory<T> cut(const sycl::queue& queue, std::byte* memory, std::int64_t heads, std::int64_t rows,
                   std::int64_t tokens, std::int64_t columns, simplex_draw draw) {
  detail::scratchpad_parts parts(memory);
  draw_memory<T> result{};
  if (draw == simplex_draw::coefficients) {
    result.null_basis = parts.take_array<T>(heads, tokens, tokens);
    result.coefficients = parts.take_array<T>(heads, rows, tokens);
    result.work =
        parts.take_bytes(null_space_basis_scratchpad_size<T>(queue, heads, tokens, std::min(tokens, columns)));
  } else {
    result.work = parts.take_bytes(project_scratchpad_size<T>(heads, rows, columns));
  }
  result.bytes = parts.bytes();
  return result;
}

/// Directions in the complement of the basis, one for each row of out (heads, rows, S).
template <class T>
sycl::event draw_directions(sycl::queue& queue, const view<const T, 3>& basis, const view<const std::int64_t, 1>& rank,
                            const view<T, 3>& out, random_stream stream, const draw_memory<T>& memory,
                            simplex_draw draw, const std::vector<sycl::event>& dependencies) {
  if (draw == simplex_draw::projected) {
    return random_null_space_rows<T>(queue, basis, out, stream, memory.work, dependencies);
  }
  constexpr T largest = 10;
  // More columns than tokens there are only where the last ones are zero.
  const std::int64_t columns = std::min(basis.extent[1], basis.extent[2]);
  const sycl::event complete =
      null_space_basis<T>(queue, slice(basis, 2, 0, columns), rank, memory.null_basis, memory.work, dependencies);
  const sycl::event drawn = fill_uniform(queue, contiguous(memory.coefficients.data, memory.coefficients.size()),
                                         stream, -largest, largest, dependencies);
  // coefficients (heads, rows, S) times the transposed null basis, whose columns beyond the dimension are zero
  return gemm(queue, T(1), memory.coefficients, transposed(view<const T, 3>(memory.null_basis)), T(0), out, {},
              {complete, drawn});
}

template <class T>
struct check_memory {
  view<T, 4> difference, figures, coefficients;
  std::int64_t bytes;
};

template <class T>
check_memory<T> cut_check(std::byte* memory, std::int64_t heads, std::int64_t alternatives, std::int64_t rows,
                          std::int64_t tokens, std::int64_t columns) {
  detail::scratchpad_parts parts(memory);
  check_memory<T> result{};
  result.difference = parts.take_array<T>(heads, alternatives, rows, tokens);
  result.figures = parts.take_array<T>(heads, alternatives, rows, 3);
  result.coefficients = parts.take_array<T>(heads, alternatives, rows, columns);
  result.bytes = parts.bytes();
  return result;
}

}  // namespace

template <class T>
std::int64_t simplex_alternatives_scratchpad_size(const sycl::queue& queue, std::int64_t heads,
                                                  std::int64_t alternatives, std::int64_t rows, std::int64_t tokens,
                                                  std::int64_t columns, const simplex_options& options) {
  check::not_negative("simplex_alternatives_scratchpad_size", {heads, alternatives, rows, tokens, columns});
  return cut<T>(queue, nullptr, heads, alternatives * rows, tokens, columns, options.draw).bytes;
}

template <class T>
sycl::event simplex_alternatives(sycl::queue& queue, std::type_identity_t<view<const T, 3>> a,
                                 std::type_identity_t<view<const T, 3>> basis, view<const std::int64_t, 1> rank,
                                 view<T, 4> out, view<T, 3> lambda, random_stream stream,
                                 std::span<std::byte> scratchpad, const simplex_options& options,
                                 const std::vector<sycl::event>& dependencies) {
  constexpr const char* function = "simplex_alternatives";
  check_operands<T>(function, queue, a, basis, out);
  check::input(function, "rank", rank);
  check::output(function, "lambda", lambda);
  check::same_extent(function, "rank", rank, 0, "a", a, 0);
  for (int d : {0, 1, 2}) check::same_extent(function, "lambda", lambda, d, "out", out, d);
  if (!(options.share >= 0 && options.share <= 1)) {
    throw invalid_argument(
        fmt::format("{}: the share of lambda_max is {}, and must be in [0, 1]", function, options.share));
  }
  const std::int64_t heads = out.extent[0], rows = out.extent[1] * out.extent[2], tokens = out.extent[3];
  check::scratchpad(function, scratchpad,
                    simplex_alternatives_scratchpad_size<T>(queue, heads, out.extent[1], out.extent[2], tokens,
                                                            basis.extent[2], options));
  if (lambda.empty()) return join(queue, dependencies);
  const draw_memory<T> memory = cut<T>(queue, scratchpad.data(), heads, rows, tokens, basis.extent[2], options.draw);
  // Rows without tokens have no directions, but a lambda.
  const sycl::event drawn =
      out.empty() ? join(queue, dependencies)
                  : draw_directions<T>(queue, basis, rank, all_rows(out), stream, memory, options.draw, dependencies);
  const detail::team_shape shape = detail::choose_team_shape(queue, tokens, detail::has_neighbours(a));
  return detail::with_team<sizeof(T)>(shape, [&]<int W, int Items>() {
    const kernels::simplex_rows<T, W, Items> kernel{a, rank, out, lambda, static_cast<T>(options.share)};
    return launch(queue, detail::groups_of(heads * rows, Items), kernels::team<Items>::local_bytes, kernel, {drawn});
  });
}

template <class T>
std::int64_t check_alternatives_scratchpad_size(std::int64_t heads, std::int64_t alternatives, std::int64_t rows,
                                                std::int64_t tokens, std::int64_t columns) {
  check::not_negative("check_alternatives_scratchpad_size", {heads, alternatives, rows, tokens, columns});
  return cut_check<T>(nullptr, heads, alternatives, rows, tokens, columns).bytes;
}

template <class T>
sycl::event check_alternatives(sycl::queue& queue, std::type_identity_t<view<const T, 3>> a,
                               std::type_identity_t<view<const T, 3>> basis, std::type_identity_t<view<const T, 4>> out,
                               view<simplex_check<T>, 2> checks, std::span<std::byte> scratchpad,
                               const std::vector<sycl::event>& dependencies) {
  static_assert(sizeof(simplex_check<T>) == 3 * sizeof(T), "the kernel sees three numbers an alternative");
  constexpr const char* function = "check_alternatives";
  check_operands<T>(function, queue, a, basis, out);
  check::output(function, "checks", checks);
  for (int d : {0, 1}) check::same_extent(function, "checks", checks, d, "out", out, d);
  const std::int64_t heads = out.extent[0], rows = out.extent[1] * out.extent[2], tokens = out.extent[3];
  const std::int64_t columns = basis.extent[2];
  check::scratchpad(function, scratchpad,
                    check_alternatives_scratchpad_size<T>(heads, out.extent[1], out.extent[2], tokens, columns));
  if (checks.empty()) return join(queue, dependencies);
  const check_memory<T> memory = cut_check<T>(scratchpad.data(), heads, out.extent[1], out.extent[2], tokens, columns);
  const detail::team_shape shape = detail::choose_team_shape(queue, tokens, detail::has_neighbours(a));
  const sycl::event subtracted = detail::with_team<sizeof(T)>(shape, [&]<int W, int Items>() {
    const kernels::simplex_differences<T, W, Items> kernel{a, out, memory.difference, memory.figures};
    return launch(queue, detail::groups_of(heads * rows, Items), kernels::team<Items>::local_bytes, kernel,
                  dependencies);
  });
  const sycl::event multiplied = gemm(queue, T(1), view<const T, 3>(all_rows(memory.difference)), basis, T(0),
                                      all_rows(memory.coefficients), {}, {subtracted});
  const view<T, 3> worst{reinterpret_cast<T*>(checks.data),
                         {checks.extent[0], checks.extent[1], 3},
                         {3 * checks.stride[0], 3 * checks.stride[1], 1}};
  return launch(queue, detail::groups_of(checks.size(), 1), 0,
                kernels::simplex_worst<T>{memory.figures, memory.coefficients, worst}, {multiplied});
}

template std::int64_t simplex_alternatives_scratchpad_size<float>(const sycl::queue&, std::int64_t, std::int64_t,
                                                                  std::int64_t, std::int64_t, std::int64_t,
                                                                  const simplex_options&);
template std::int64_t simplex_alternatives_scratchpad_size<double>(const sycl::queue&, std::int64_t, std::int64_t,
                                                                   std::int64_t, std::int64_t, std::int64_t,
                                                                   const simplex_options&);
template sycl::event simplex_alternatives<float>(sycl::queue&, view<const float, 3>, view<const float, 3>,
                                                 view<const std::int64_t, 1>, view<float, 4>, view<float, 3>,
                                                 random_stream, std::span<std::byte>, const simplex_options&,
                                                 const std::vector<sycl::event>&);
template sycl::event simplex_alternatives<double>(sycl::queue&, view<const double, 3>, view<const double, 3>,
                                                  view<const std::int64_t, 1>, view<double, 4>, view<double, 3>,
                                                  random_stream, std::span<std::byte>, const simplex_options&,
                                                  const std::vector<sycl::event>&);
template std::int64_t check_alternatives_scratchpad_size<float>(std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                                                                std::int64_t);
template std::int64_t check_alternatives_scratchpad_size<double>(std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                                                                 std::int64_t);
template sycl::event check_alternatives<float>(sycl::queue&, view<const float, 3>, view<const float, 3>,
                                               view<const float, 4>, view<simplex_check<float>, 2>,
                                               std::span<std::byte>, const std::vector<sycl::event>&);
template sycl::event check_alternatives<double>(sycl::queue&, view<const double, 3>, view<const double, 3>,
                                                view<const double, 4>, view<simplex_check<double>, 2>,
                                                std::span<std::byte>, const std::vector<sycl::event>&);

}  // namespace nullscope

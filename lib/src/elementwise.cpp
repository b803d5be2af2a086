#include "elementwise.hpp"

#include <nullscope/elementwise.hpp>
#include <nullscope/launch.hpp>

#include "checks.hpp"
#include "team_shape.hpp"
#include "transpose.hpp"
#include "transpose_strips.hpp"

namespace nullscope {
namespace {

using detail::team_shape;

template <class From, class To, int Rank>
void check_operands(const char* function, const sycl::queue& queue, const char* name, const view<const From, Rank>& x,
                    const view<To, Rank>& out) {
  check::device_type<From>(function, queue);
  check::device_type<To>(function, queue);
  check::input(function, name, x);
  check::output(function, "out", out);
  check::same_shape(function, name, x, "out", out);
}

/// Makes rows as long as possible: dimensions that continue one another in every operand become one.
/// All operands are (batch, rows, columns) of the same shape.
template <class First, class... Others>
void merge_dimensions(First& first, Others&... others) {
  const auto merge = [&](int outer, int inner) {
    const auto continues = [&](const auto& x) {
      return x.extent[outer] == 1 || x.extent[inner] == 1 || x.stride[outer] == x.extent[inner] * x.stride[inner];
    };
    if (!(continues(first) && ... && continues(others))) return false;
    const auto join = [&](auto& x) {
      if (x.extent[inner] == 1) x.stride[inner] = x.stride[outer];
      x.extent[inner] *= x.extent[outer];
      x.extent[outer] = 1;
    };
    (join(first), ..., join(others));
    return true;
  };
  if (merge(1, 2)) {
    merge(0, 2);
  } else {
    merge(0, 1);
  }
}

/// Launches a kernel over the tiles of its out; sets their shape.
template <int Items, class Kernel>
sycl::event launch_tiles(sycl::queue& queue, team_shape shape, Kernel kernel,
                         const std::vector<sycl::event>& dependencies) {
  constexpr std::int64_t most_columns = 16384;
  const std::int64_t rows = kernel.out.extent[0] * kernel.out.extent[1], columns = kernel.out.extent[2];
  kernel.shape.columns = std::clamp<std::int64_t>(columns, 1, most_columns);
  kernel.shape.rows = 1;
  if (columns <= most_columns) {
    kernel.shape.rows = detail::rows_per_group(queue, shape, rows, columns * static_cast<std::int64_t>(sizeof(float)));
  }
  const std::int64_t tiles =
      detail::ceil_div(columns, kernel.shape.columns) * detail::ceil_div(rows, kernel.shape.rows);
  return launch(queue, detail::groups_of(tiles, Items), kernels::team<Items>::local_bytes, kernel, dependencies);
}

template <class From, class To, class Operation>
sycl::event map(sycl::queue& queue, Operation operation, view<const From, 3> x, view<To, 3> out,
                const std::vector<sycl::event>& dependencies) {
  merge_dimensions(out, x);
  const bool neighbours = detail::has_neighbours(x) && detail::has_neighbours(out);
  const team_shape shape =
      detail::choose_team_shape(queue, out.extent[2], neighbours, detail::streamable_bytes(out, x));
  constexpr std::size_t widest = sizeof(From) == 8 || sizeof(To) == 8 ? 8 : 4;
  return detail::with_streaming_team<widest>(shape, [&]<int W, int Items, bool Streams>() {
    const kernels::map_one<Operation, From, To, W, Items, Streams> kernel{x, out, operation, {}};
    return launch_tiles<Items>(queue, shape, kernel, dependencies);
  });
}

template <class T, class Operation>
sycl::event map(sycl::queue& queue, Operation operation, view<const T, 3> x, view<const T, 3> y, view<T, 3> out,
                const std::vector<sycl::event>& dependencies) {
  merge_dimensions(out, x, y);
  const bool neighbours = detail::has_neighbours(x) && detail::has_neighbours(y) && detail::has_neighbours(out);
  const team_shape shape =
      detail::choose_team_shape(queue, out.extent[2], neighbours, detail::streamable_bytes(out, x, y));
  return detail::with_streaming_team<sizeof(T)>(shape, [&]<int W, int Items, bool Streams>() {
    const kernels::map_two<Operation, T, W, Items, Streams> kernel{x, y, out, operation, {}};
    return launch_tiles<Items>(queue, shape, kernel, dependencies);
  });
}

/// Halves `width`, down to `least`, until `groups()` of that width keep all compute units busy.
template <class Groups>
void narrow(const sycl::queue& queue, std::int64_t& width, std::int64_t least, Groups groups) {
  const std::int64_t enough = 4 * properties(queue.get_device()).compute_units;
  while (groups() < enough && width > least) width /= 2;
}

/// out = the transpose of x, elements of up to four bytes, where the last stride of both is 1 and the rows of out begin
/// at cache lines. (Of double it takes 1.04 to 1.1 times as long as whole blocks.)
template <class T>
sycl::event transpose_strips(sycl::queue& queue, view<const T, 3> x, view<T, 3> out,
                             const std::vector<sycl::event>& dependencies) {
  using kernel_type = kernels::transpose_strips<T, 32 / sizeof(T)>;
  kernel_type kernel{x, out, 64 * kernel_type::tile_columns};
  narrow(queue, kernel.strip_columns, kernel_type::tile_columns, [&] { return kernel.strips(); });
  return launch(queue, detail::groups_of(kernel.strips(), 1), kernel_type::local_bytes, kernel, dependencies);
}

/// out = the transpose of x, where the last stride of both is 1.
template <class T>
sycl::event transpose_dense(sycl::queue& queue, view<const T, 3> x, view<T, 3> out,
                            const std::vector<sycl::event>& dependencies) {
  // Ordinary stores that jump from page to page are so slow that it pays sooner to go past the caches.
  constexpr std::int64_t streams_from = 4 << 20, large_tiles_from = 64 << 20;  // bytes
  const std::int64_t streamable = detail::streamable_bytes(out);
  const auto run = [&]<int W, int Items, bool Streams>() {
    using kernel_type = kernels::transpose_tiles<T, W, Items, Streams>;
    kernel_type kernel{x, out, kernel_type::local_side, kernel_type::local_side};
    const auto groups = [&] { return x.extent[0] * kernel.tiles_down() * kernel.tiles_across(); };
    if constexpr (W > 1) {
      kernel.tile_rows = Streams && streamable >= large_tiles_from ? 512 : 128;
      kernel.tile_columns = 512;
      narrow(queue, kernel.tile_columns, 64, groups);
    }
    return launch(queue, detail::groups_of(groups(), Items), kernel_type::local_bytes, kernel, dependencies);
  };
  constexpr int lanes = sizeof(T) == 8 ? 8 : 16;      // of a block: more would not fit the registers
  constexpr bool in_lines = lanes * sizeof(T) == 64;  // so that blocks can be written past the caches
  switch (detail::choose_team_shape(queue, 2048, true, streamable, streams_from)) {
    case team_shape::vector_512:
    case team_shape::vector_256: return run.template operator()<lanes, 1, false>();
    case team_shape::streaming_256:
      if constexpr (sizeof(T) < 8) {
        constexpr std::int64_t kept = kernels::transpose_strips<T, 32 / sizeof(T)>::local_bytes;
        if (kept <= properties(queue.get_device()).usable_local_bytes()) {
          return transpose_strips(queue, x, out, dependencies);
        }
      }
      [[fallthrough]];
    case team_shape::streaming_512: return run.template operator()<lanes, 1, in_lines>();
    default: return run.template operator()<1, 256, false>();
  }
}

}  // namespace

template <class T, int Rank>
sycl::event scale(sycl::queue& queue, std::type_identity_t<T> alpha, std::type_identity_t<view<const T, Rank>> x,
                  view<T, Rank> out, const std::vector<sycl::event>& dependencies) {
  check_operands("scale", queue, "x", x, out);
  return map(queue, kernels::scale_by<T>{alpha}, detail::with_rank<3>(x), detail::with_rank<3>(out), dependencies);
}

template <class T, int Rank>
sycl::event axpby(sycl::queue& queue, std::type_identity_t<T> alpha, std::type_identity_t<view<const T, Rank>> x,
                  std::type_identity_t<T> beta, std::type_identity_t<view<const T, Rank>> y, view<T, Rank> out,
                  const std::vector<sycl::event>& dependencies) {
  check_operands("axpby", queue, "x", x, out);
  check_operands("axpby", queue, "y", y, out);
  return map(queue, kernels::weighted_sum<T>{alpha, beta}, detail::with_rank<3>(x), detail::with_rank<3>(y),
             detail::with_rank<3>(out), dependencies);
}

template <class T, int Rank>
sycl::event multiply(sycl::queue& queue, std::type_identity_t<view<const T, Rank>> x,
                     std::type_identity_t<view<const T, Rank>> y, view<T, Rank> out,
                     const std::vector<sycl::event>& dependencies) {
  check_operands("multiply", queue, "x", x, out);
  check_operands("multiply", queue, "y", y, out);
  return map(queue, kernels::product{}, detail::with_rank<3>(x), detail::with_rank<3>(y), detail::with_rank<3>(out),
             dependencies);
}

template <class T, int Rank>
sycl::event apply(sycl::queue& queue, unary_function function, std::type_identity_t<view<const T, Rank>> x,
                  view<T, Rank> out, const std::vector<sycl::event>& dependencies) {
  check_operands("apply", queue, "x", x, out);
  const auto run = [&](auto operation) {
    return map(queue, operation, detail::with_rank<3>(x), detail::with_rank<3>(out), dependencies);
  };
  switch (function) {
    case unary_function::exp: return run(kernels::apply_exp<T>{});
    case unary_function::relu: return run(kernels::apply_relu{});
    case unary_function::gelu: return run(kernels::apply_gelu<T>{});
    case unary_function::gelu_tanh: break;
  }
  return run(kernels::apply_gelu_tanh<T>{});
}

namespace detail {

template <class From, class To, int Rank>
sycl::event copy_elements(sycl::queue& queue, view<const From, Rank> x, view<To, Rank> out,
                          const std::vector<sycl::event>& dependencies) {
  check_operands("copy", queue, "x", x, out);
  const view<const From, 3> from = with_rank<3>(x);
  const view<To, 3> to = with_rank<3>(out);
  if constexpr (std::is_same_v<From, To>) {
    const bool is_small = from.extent[1] == 1 || from.extent[2] == 1;
    if (!is_small && from.stride[1] == 1 && to.stride[2] == 1) {
      return transpose_dense(queue, transposed(from), to, dependencies);
    }
    if (!is_small && from.stride[2] == 1 && to.stride[1] == 1) {
      return transpose_dense(queue, from, transposed(to), dependencies);
    }
  }
  return map(queue, kernels::identity{}, from, to, dependencies);
}

}  // namespace detail

using events = std::vector<sycl::event>;
template sycl::event scale<float, 1>(sycl::queue&, float, view<const float, 1>, view<float, 1>, const events&);
template sycl::event axpby<float, 1>(sycl::queue&, float, view<const float, 1>, float, view<const float, 1>,
                                     view<float, 1>, const events&);
template sycl::event multiply<float, 1>(sycl::queue&, view<const float, 1>, view<const float, 1>, view<float, 1>,
                                        const events&);
template sycl::event apply<float, 1>(sycl::queue&, unary_function, view<const float, 1>, view<float, 1>, const events&);
template sycl::event scale<float, 2>(sycl::queue&, float, view<const float, 2>, view<float, 2>, const events&);
template sycl::event axpby<float, 2>(sycl::queue&, float, view<const float, 2>, float, view<const float, 2>,
                                     view<float, 2>, const events&);
template sycl::event multiply<float, 2>(sycl::queue&, view<const float, 2>, view<const float, 2>, view<float, 2>,
                                        const events&);
template sycl::event apply<float, 2>(sycl::queue&, unary_function, view<const float, 2>, view<float, 2>, const events&);
template sycl::event scale<float, 3>(sycl::queue&, float, view<const float, 3>, view<float, 3>, const events&);
template sycl::event axpby<float, 3>(sycl::queue&, float, view<const float, 3>, float, view<const float, 3>,
                                     view<float, 3>, const events&);
template sycl::event multiply<float, 3>(sycl::queue&, view<const float, 3>, view<const float, 3>, view<float, 3>,
                                        const events&);
template sycl::event apply<float, 3>(sycl::queue&, unary_function, view<const float, 3>, view<float, 3>, const events&);

template sycl::event scale<double, 1>(sycl::queue&, double, view<const double, 1>, view<double, 1>, const events&);
template sycl::event axpby<double, 1>(sycl::queue&, double, view<const double, 1>, double, view<const double, 1>,
                                      view<double, 1>, const events&);
template sycl::event multiply<double, 1>(sycl::queue&, view<const double, 1>, view<const double, 1>, view<double, 1>,
                                         const events&);
template sycl::event apply<double, 1>(sycl::queue&, unary_function, view<const double, 1>, view<double, 1>,
                                      const events&);
template sycl::event scale<double, 2>(sycl::queue&, double, view<const double, 2>, view<double, 2>, const events&);
template sycl::event axpby<double, 2>(sycl::queue&, double, view<const double, 2>, double, view<const double, 2>,
                                      view<double, 2>, const events&);
template sycl::event multiply<double, 2>(sycl::queue&, view<const double, 2>, view<const double, 2>, view<double, 2>,
                                         const events&);
template sycl::event apply<double, 2>(sycl::queue&, unary_function, view<const double, 2>, view<double, 2>,
                                      const events&);
template sycl::event scale<double, 3>(sycl::queue&, double, view<const double, 3>, view<double, 3>, const events&);
template sycl::event axpby<double, 3>(sycl::queue&, double, view<const double, 3>, double, view<const double, 3>,
                                      view<double, 3>, const events&);
template sycl::event multiply<double, 3>(sycl::queue&, view<const double, 3>, view<const double, 3>, view<double, 3>,
                                         const events&);
template sycl::event apply<double, 3>(sycl::queue&, unary_function, view<const double, 3>, view<double, 3>,
                                      const events&);

template sycl::event detail::copy_elements<float, float, 1>(sycl::queue&, view<const float, 1>, view<float, 1>,
                                                            const events&);
template sycl::event detail::copy_elements<float, float, 2>(sycl::queue&, view<const float, 2>, view<float, 2>,
                                                            const events&);
template sycl::event detail::copy_elements<float, float, 3>(sycl::queue&, view<const float, 3>, view<float, 3>,
                                                            const events&);
template sycl::event detail::copy_elements<double, double, 1>(sycl::queue&, view<const double, 1>, view<double, 1>,
                                                              const events&);
template sycl::event detail::copy_elements<double, double, 2>(sycl::queue&, view<const double, 2>, view<double, 2>,
                                                              const events&);
template sycl::event detail::copy_elements<double, double, 3>(sycl::queue&, view<const double, 3>, view<double, 3>,
                                                              const events&);
template sycl::event detail::copy_elements<bfloat16, bfloat16, 1>(sycl::queue&, view<const bfloat16, 1>,
                                                                  view<bfloat16, 1>, const events&);
template sycl::event detail::copy_elements<bfloat16, bfloat16, 2>(sycl::queue&, view<const bfloat16, 2>,
                                                                  view<bfloat16, 2>, const events&);
template sycl::event detail::copy_elements<bfloat16, bfloat16, 3>(sycl::queue&, view<const bfloat16, 3>,
                                                                  view<bfloat16, 3>, const events&);
template sycl::event detail::copy_elements<float, double, 1>(sycl::queue&, view<const float, 1>, view<double, 1>,
                                                             const events&);
template sycl::event detail::copy_elements<float, double, 2>(sycl::queue&, view<const float, 2>, view<double, 2>,
                                                             const events&);
template sycl::event detail::copy_elements<float, double, 3>(sycl::queue&, view<const float, 3>, view<double, 3>,
                                                             const events&);
template sycl::event detail::copy_elements<double, float, 1>(sycl::queue&, view<const double, 1>, view<float, 1>,
                                                             const events&);
template sycl::event detail::copy_elements<double, float, 2>(sycl::queue&, view<const double, 2>, view<float, 2>,
                                                             const events&);
template sycl::event detail::copy_elements<double, float, 3>(sycl::queue&, view<const double, 3>, view<float, 3>,
                                                             const events&);
template sycl::event detail::copy_elements<float, bfloat16, 1>(sycl::queue&, view<const float, 1>, view<bfloat16, 1>,
                                                               const events&);
template sycl::event detail::copy_elements<float, bfloat16, 2>(sycl::queue&, view<const float, 2>, view<bfloat16, 2>,
                                                               const events&);
template sycl::event detail::copy_elements<float, bfloat16, 3>(sycl::queue&, view<const float, 3>, view<bfloat16, 3>,
                                                               const events&);
template sycl::event detail::copy_elements<bfloat16, float, 1>(sycl::queue&, view<const bfloat16, 1>, view<float, 1>,
                                                               const events&);
template sycl::event detail::copy_elements<bfloat16, float, 2>(sycl::queue&, view<const bfloat16, 2>, view<float, 2>,
                                                               const events&);
template sycl::event detail::copy_elements<bfloat16, float, 3>(sycl::queue&, view<const bfloat16, 3>, view<float, 3>,
                                                               const events&);

}  // namespace nullscope

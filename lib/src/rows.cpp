#include <nullscope/launch.hpp>
#include <nullscope/rows.hpp>

#include "checks.hpp"
#include "column_reduce.hpp"
#include "row_layer_norm.hpp"
#include "row_reduce.hpp"
#include "row_softmax.hpp"
#include "team_shape.hpp"

namespace nullscope {
namespace {

using detail::team_shape;

/// The matrices of an operation from rows to rows, checked.
template <class T, int Rank>
void check_matrices(const char* function, const sycl::queue& queue, const view<const T, Rank>& x,
                    const view<T, Rank>& y) {
  check::device_type<T>(function, queue);
  check::input(function, "x", x);
  check::output(function, "y", y);
  check::same_shape(function, "x", x, "y", y);
}

/// A result of one number a row, or nothing.
template <class T, int Rank>
void check_row_result(const char* function, const view<const T, Rank>& x, const char* name,
                      const view<T, Rank - 1>& result) {
  if (result.data == nullptr) return;
  check::output(function, name, result);
  for (int d = 0; d < Rank - 1; ++d) check::same_extent(function, "x", x, d, name, result, d);
}

template <class T, int Rank>
void check_weights(const char* function, const view<const T, Rank>& x, const char* name,
                   const view<const T, 1>& weights) {
  if (weights.data == nullptr) return;
  check::input(function, name, weights);
  check::same_extent(function, "x", x, Rank - 1, name, weights, 0);
}

/// Launches the kernel over all rows of its x; sets how many rows a work-group takes.
template <int Items, class Kernel>
sycl::event launch_rows(sycl::queue& queue, team_shape shape, Kernel kernel,
                        const std::vector<sycl::event>& dependencies, std::size_t local_bytes = 0) {
  const std::int64_t rows = kernel.x.extent[0] * kernel.x.extent[1];
  const std::int64_t row_bytes = kernel.x.extent[2] * static_cast<std::int64_t>(sizeof(*kernel.x.data));
  kernel.rows_per_group = detail::rows_per_group(queue, shape, rows, row_bytes);
  return launch(queue, detail::groups_of(detail::ceil_div(rows, kernel.rows_per_group), Items),
                kernels::team<Items>::local_bytes + local_bytes, kernel, dependencies);
}

template <kernels::reduction Kind, class T>
sycl::event reduce_rows(sycl::queue& queue, const view<const T, 3>& x, const view<T, 2>& out,
                        const std::vector<sycl::event>& dependencies) {
  const team_shape shape = detail::choose_team_shape(queue, x.extent[2], detail::has_neighbours(x));
  return detail::with_team<sizeof(T)>(shape, [&]<int W, int Items>() {
    return launch_rows<Items>(queue, shape, kernels::row_reduce<T, Kind, W, Items>{x, out, 0}, dependencies);
  });
}

/// `down_columns`: the rows of x are neighbours in memory, so that the reduction goes down the columns of its
/// transpose.
template <kernels::reduction Kind, class T>
sycl::event reduce(sycl::queue& queue, const view<const T, 3>& x, const view<T, 2>& out, bool down_columns,
                   const std::vector<sycl::event>& dependencies) {
  if (!down_columns) return reduce_rows<Kind>(queue, x, out, dependencies);
  const team_shape shape = detail::choose_team_shape(queue, x.extent[2], true);
  return detail::with_team<sizeof(T)>(shape, [&]<int W, int Items>() {
    using kernel_type = kernels::column_reduce<T, Kind, W, Items>;
    const std::int64_t groups = x.extent[0] * kernel_type::strips(x.extent[1]);
    return launch(queue, detail::groups_of(groups, Items), kernel_type::local_bytes, kernel_type{transposed(x), out},
                  dependencies);
  });
}

}  // namespace

template <class T, int Rank>
sycl::event softmax(sycl::queue& queue, std::type_identity_t<view<const T, Rank>> x, view<T, Rank> y,
                    std::type_identity_t<view<T, Rank - 1>> log_sum_exp, const std::vector<sycl::event>& dependencies) {
  check_matrices<T, Rank>("softmax", queue, x, y);
  check_row_result<T, Rank>("softmax", x, "log_sum_exp", log_sum_exp);
  const bool neighbours = detail::has_neighbours(x) && detail::has_neighbours(y);
  const std::int64_t columns = x.extent[Rank - 1];
  // Exponentials that are kept in local memory shall stay in the caches of a core.
  const std::int64_t most_kept_columns = std::min<std::int64_t>(
      4096, properties(queue.get_device()).usable_local_bytes() / static_cast<std::int64_t>(4 * sizeof(T)));
  const std::int64_t streamable = columns <= most_kept_columns ? detail::streamable_bytes(y, x) : 0;
  const team_shape shape = detail::choose_team_shape(queue, columns, neighbours, streamable);
  return detail::with_streaming_team<sizeof(T)>(shape, [&]<int W, int Items, bool Streams>() {
    const kernels::row_softmax<T, W, Items, Streams> kernel{detail::with_rank<3>(x), detail::with_rank<3>(y),
                                                            detail::with_rank<2>(log_sum_exp), 0};
    const auto kept = static_cast<std::size_t>(kernel.kept_bytes(columns));
    return launch_rows<Items>(queue, shape, kernel, dependencies, kept);
  });
}

template <class T, int Rank>
sycl::event layer_norm(sycl::queue& queue, std::type_identity_t<view<const T, Rank>> x, view<T, Rank> y,
                       const std::type_identity_t<layer_norm_options<T, Rank>>& options,
                       const std::vector<sycl::event>& dependencies) {
  check_matrices<T, Rank>("layer_norm", queue, x, y);
  check_weights<T, Rank>("layer_norm", x, "gamma", options.gamma);
  check_weights<T, Rank>("layer_norm", x, "beta", options.beta);
  check_row_result<T, Rank>("layer_norm", x, "mean", options.mean);
  check_row_result<T, Rank>("layer_norm", x, "inverse_deviation", options.inverse_deviation);
  if (!(options.epsilon >= 0)) {
    throw invalid_argument(fmt::format("layer_norm: epsilon is {}, and must not be negative", options.epsilon));
  }
  const bool neighbours = detail::has_neighbours(x) && detail::has_neighbours(y) &&
                          detail::has_neighbours(options.gamma) && detail::has_neighbours(options.beta);
  const team_shape shape =
      detail::choose_team_shape(queue, x.extent[Rank - 1], neighbours, detail::streamable_bytes(y, x));
  return detail::with_streaming_team<sizeof(T)>(shape, [&]<int W, int Items, bool Streams>() {
    const kernels::row_layer_norm<T, W, Items, Streams> kernel{detail::with_rank<3>(x),
                                                               detail::with_rank<3>(y),
                                                               options.gamma,
                                                               options.beta,
                                                               detail::with_rank<2>(options.mean),
                                                               detail::with_rank<2>(options.inverse_deviation),
                                                               options.epsilon,
                                                               0};
    return launch_rows<Items>(queue, shape, kernel, dependencies);
  });
}

template <class T, int RowsRank>
sycl::event row_reduce(sycl::queue& queue, row_reduction reduction, std::type_identity_t<view<const T, RowsRank + 1>> x,
                       view<T, RowsRank> out, const std::vector<sycl::event>& dependencies) {
  check::device_type<T>("row_reduce", queue);
  check::input("row_reduce", "x", x);
  check::output("row_reduce", "out", out);
  for (int d = 0; d < RowsRank; ++d) check::same_extent("row_reduce", "x", x, d, "out", out, d);
  const view<const T, 3> matrices = detail::with_rank<3>(x);
  const view<T, 2> results = detail::with_rank<2>(out);
  const bool down_columns = !detail::has_neighbours(x) && x.stride[RowsRank - 1] == 1;
  switch (reduction) {
    case row_reduction::sum:
      return reduce<kernels::reduction::sum>(queue, matrices, results, down_columns, dependencies);
    case row_reduction::maximum:
      return reduce<kernels::reduction::maximum>(queue, matrices, results, down_columns, dependencies);
    case row_reduction::sum_of_squares:
      return reduce<kernels::reduction::sum_of_squares>(queue, matrices, results, down_columns, dependencies);
    case row_reduction::norm: break;
  }
  return reduce_rows<kernels::reduction::norm>(queue, matrices, results, dependencies);
}

using events = std::vector<sycl::event>;
template sycl::event softmax<float, 2>(sycl::queue&, view<const float, 2>, view<float, 2>, view<float, 1>,
                                       const events&);
template sycl::event softmax<float, 3>(sycl::queue&, view<const float, 3>, view<float, 3>, view<float, 2>,
                                       const events&);
template sycl::event softmax<double, 2>(sycl::queue&, view<const double, 2>, view<double, 2>, view<double, 1>,
                                        const events&);
template sycl::event softmax<double, 3>(sycl::queue&, view<const double, 3>, view<double, 3>, view<double, 2>,
                                        const events&);

template sycl::event layer_norm<float, 2>(sycl::queue&, view<const float, 2>, view<float, 2>,
                                          const layer_norm_options<float, 2>&, const events&);
template sycl::event layer_norm<float, 3>(sycl::queue&, view<const float, 3>, view<float, 3>,
                                          const layer_norm_options<float, 3>&, const events&);
template sycl::event layer_norm<double, 2>(sycl::queue&, view<const double, 2>, view<double, 2>,
                                           const layer_norm_options<double, 2>&, const events&);
template sycl::event layer_norm<double, 3>(sycl::queue&, view<const double, 3>, view<double, 3>,
                                           const layer_norm_options<double, 3>&, const events&);

template sycl::event row_reduce<float, 1>(sycl::queue&, row_reduction, view<const float, 2>, view<float, 1>,
                                          const events&);
template sycl::event row_reduce<float, 2>(sycl::queue&, row_reduction, view<const float, 3>, view<float, 2>,
                                          const events&);
template sycl::event row_reduce<double, 1>(sycl::queue&, row_reduction, view<const double, 2>, view<double, 1>,
                                           const events&);
template sycl::event row_reduce<double, 2>(sycl::queue&, row_reduction, view<const double, 3>, view<double, 2>,
                                           const events&);

}  // namespace nullscope

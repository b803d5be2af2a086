#include "kernels/model/relative_bias.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nullscope/attention/attention.hpp>
#include <nullscope/core/errors.hpp>

#include "lib/src/core/checks.hpp"
#include "lib/src/core/ranges.hpp"

namespace nullscope {
namespace {

constexpr std::int64_t items = 32;

bool can_be_buckets(std::int64_t buckets) {
  return buckets >= 4 && buckets % 2 == 0 && buckets <= 2 * kernels::distance_buckets::most;
}

std::string expected_buckets() { return fmt::format("even, from 4 to {}", 2 * kernels::distance_buckets::most); }

void check_distance(std::string_view function, std::int64_t buckets, std::int64_t distance) {
  if (distance <= buckets / 4 || distance > std::int64_t{1} << 30) {
    throw invalid_argument(fmt::format("{}: a distance of {}; it must be above buckets / 4 = {}, and at most 2^30",
                                       function, distance, buckets / 4));
  }
}

/// The bucket of a distance within its half. In float and in this order, so that distances at the edge of a bucket
/// fall where PyTorch puts them.
std::int64_t bucket_in_half(std::int64_t distance, std::int64_t half, std::int64_t largest) {
  const std::int64_t exact = half / 2;
  if (distance < exact) return distance;
  const float ratio = static_cast<float>(distance) / static_cast<float>(exact);
  const float all = static_cast<float>(std::log(static_cast<double>(largest) / static_cast<double>(exact)));
  const float place = std::log(ratio) / all * static_cast<float>(half - exact);
  return std::min(exact + static_cast<std::int64_t>(place), half - 1);
}

kernels::distance_buckets make_buckets(std::int64_t buckets, std::int64_t largest) {
  kernels::distance_buckets result{};
  const std::int64_t half = buckets / 2;
  result.count = static_cast<std::int32_t>(half);
  for (std::int64_t b = 0; b < half; ++b) {
    // The smallest distance whose bucket is b or later, by bisection: buckets never decrease.
    std::int64_t below = -1, reached = largest;
    while (reached - below > 1) {
      const std::int64_t middle = (below + reached) / 2;
      (bucket_in_half(middle, half, largest) >= b ? reached : below) = middle;
    }
    result.first[b] = static_cast<std::int32_t>(reached);
  }
  return result;
}

template <class T, class U>
void check_table(std::string_view function, std::string_view name, const view<T, 2>& table, std::string_view weights,
                 const view<U, 2>& w, const relative_bias_options& options) {
  check::same_extent(function, name, table, 0, weights, w, 1);
  if (table.extent[1] % 2 == 0) check::fail(function, name, table, "should have 2 S - 1 columns");
  if (!can_be_buckets(w.extent[0])) {
    check::fail(function, weights, w, "has a number of buckets that is not " + expected_buckets());
  }
  check_distance(function, w.extent[0], options.distance);
}

template <class T>
sycl::event make_table(context& ctx, const view<const T, 2>& weights, const view<T, 2>& table,
                       const relative_bias_options& options, const events& dependencies) {
  constexpr const char* name = "relative_bias";
  check::device_type<T>(name, ctx);
  check::input(name, "weights", weights);
  check::output(name, "table", table);
  check_table(name, "table", table, "weights", weights, options);
  operation op(ctx, name, dependencies);
  op.launch(detail::groups_of(detail::ceil_div(table.size(), items), items), 0,
            kernels::relative_bias_table<T>{weights, table, make_buckets(weights.extent[0], options.distance)});
  return op.submit();
}

template <class T>
sycl::event add_gradient(context& ctx, const view<const T, 2>& d_table, const view<T, 2>& d_weights,
                         const relative_bias_options& options, const events& dependencies) {
  constexpr const char* name = "relative_bias_backward";
  check::device_type<T>(name, ctx);
  check::input(name, "d_table", d_table);
  check::output(name, "d_weights", d_weights);
  check_table(name, "d_table", d_table, "d_weights", d_weights, options);
  operation op(ctx, name, dependencies);
  op.launch(
      detail::groups_of(detail::ceil_div(d_weights.size(), items), items), 0,
      kernels::relative_bias_gradient<T>{d_table, d_weights, make_buckets(d_weights.extent[0], options.distance)});
  return op.submit();
}

}  // namespace

std::int64_t relative_bucket(std::int64_t key_minus_query, std::int64_t buckets, std::int64_t distance) {
  constexpr const char* name = "relative_bucket";
  if (!can_be_buckets(buckets)) {
    throw invalid_argument(fmt::format("{}: {} buckets; their number must be {}", name, buckets, expected_buckets()));
  }
  check_distance(name, buckets, distance);
  const std::int64_t in_half = bucket_in_half(std::abs(key_minus_query), buckets / 2, distance);
  return key_minus_query > 0 ? buckets / 2 + in_half : in_half;
}

sycl::event relative_bias(context& ctx, view<const float, 2> weights, view<float, 2> table,
                          const relative_bias_options& options, const events& dependencies) {
  return make_table(ctx, weights, table, options, dependencies);
}
sycl::event relative_bias(context& ctx, view<const double, 2> weights, view<double, 2> table,
                          const relative_bias_options& options, const events& dependencies) {
  return make_table(ctx, weights, table, options, dependencies);
}

sycl::event relative_bias_backward(context& ctx, view<const float, 2> d_table, view<float, 2> d_weights,
                                   const relative_bias_options& options, const events& dependencies) {
  return add_gradient(ctx, d_table, d_weights, options, dependencies);
}
sycl::event relative_bias_backward(context& ctx, view<const double, 2> d_table, view<double, 2> d_weights,
                                   const relative_bias_options& options, const events& dependencies) {
  return add_gradient(ctx, d_table, d_weights, options, dependencies);
}

}  // namespace nullscope

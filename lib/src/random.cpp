#include <fmt/format.h>

#include <nullscope/launch.hpp>
#include <nullscope/random.hpp>

#include "checks.hpp"
#include "fill_random.hpp"
#include "team_shape.hpp"

namespace nullscope {
namespace {

template <class T, bool Normal>
sycl::event fill(std::string_view function, sycl::queue& queue, view<T, 1> out, random_stream stream, T offset, T scale,
                 const std::vector<sycl::event>& dependencies) {
  check::output(function, "out", out);
  if (out.extent[0] > 1 && out.stride[0] != 1) check::fail(function, "out", out, "is not contiguous");
  check::device_type<T>(function, queue);
  if (!(scale >= 0)) throw invalid_argument(fmt::format("{}: the range or deviation is {}, below 0", function, scale));
  constexpr std::int64_t group = 64;
  constexpr std::int64_t per_group = group * kernels::numbers_per_block<T>;
  return launch(queue, detail::groups_of(detail::ceil_div(out.extent[0], per_group), group), 0,
                kernels::fill_random<T, Normal>{out.data, out.extent[0], stream.seed, stream.stream, offset, scale},
                dependencies);
}

template <class T>
kernels::philox_block block_of(random_stream stream, std::int64_t index) {
  return kernels::philox(stream.seed, stream.stream, static_cast<std::uint64_t>(index / kernels::numbers_per_block<T>));
}

}  // namespace

template <class T>
sycl::event fill_uniform(sycl::queue& queue, view<T, 1> out, random_stream stream, T low, T high,
                         const std::vector<sycl::event>& dependencies) {
  return fill<T, false>("fill_uniform", queue, out, stream, low, high - low, dependencies);
}

template <class T>
sycl::event fill_normal(sycl::queue& queue, view<T, 1> out, random_stream stream, T mean, T deviation,
                        const std::vector<sycl::event>& dependencies) {
  return fill<T, true>("fill_normal", queue, out, stream, mean, deviation, dependencies);
}

template <class T>
T uniform_at(random_stream stream, std::int64_t index) {
  return kernels::unit_uniform<T>(block_of<T>(stream, index), static_cast<int>(index % kernels::numbers_per_block<T>));
}

template <class T>
T normal_at(random_stream stream, std::int64_t index) {
  return kernels::standard_normal<T>(block_of<T>(stream, index),
                                     static_cast<int>(index % kernels::numbers_per_block<T>));
}

template sycl::event fill_uniform(sycl::queue&, view<float, 1>, random_stream, float, float,
                                  const std::vector<sycl::event>&);
template sycl::event fill_uniform(sycl::queue&, view<double, 1>, random_stream, double, double,
                                  const std::vector<sycl::event>&);
template sycl::event fill_normal(sycl::queue&, view<float, 1>, random_stream, float, float,
                                 const std::vector<sycl::event>&);
template sycl::event fill_normal(sycl::queue&, view<double, 1>, random_stream, double, double,
                                 const std::vector<sycl::event>&);
template float uniform_at(random_stream, std::int64_t);
template double uniform_at(random_stream, std::int64_t);
template float normal_at(random_stream, std::int64_t);
template double normal_at(random_stream, std::int64_t);

}  // namespace nullscope

#include <fmt/format.h>

#include <limits>
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
  if (!(scale >= 0 && scale <= std::numeric_limits<T>::max())) {
    throw invalid_argument(
        fmt::format("{}: the range or deviation is {}, not a finite number from 0 on", function, scale));
  }
  detail::team_shape shape = detail::choose_team_shape(queue, out.extent[0], true);
  // With AVX2 a pack of eight doubles, in two registers, takes 0.67 of the time of two of four; of float 1.1.
  if (sizeof(T) == 8) shape = detail::with_512_bits(shape);
  return detail::with_team<sizeof(T)>(shape, [&]<int W, int Items>() {
    using kernel = kernels::fill_random<T, Normal, W, Items>;
    const std::int64_t rounds = Items == 1 ? 256 : 1;  // on a CPU so many that scheduling does not show
    const std::int64_t groups = detail::ceil_div(out.extent[0], kernel::numbers_per_group(rounds));
    return launch(queue, detail::groups_of(groups, Items), 0,
                  kernel{out.data, out.extent[0], stream.seed, stream.stream, offset, scale, rounds}, dependencies);
  });
}

template <class T, bool Normal>
T number_at(std::string_view function, random_stream stream, std::int64_t index) {
  if (index < 0) throw invalid_argument(fmt::format("{}: the index {} is negative", function, index));
  constexpr int size = kernels::numbers_per_block<T>;
  kernels::pack<T, 1> z[size];
  kernels::numbers_of_blocks<Normal>(stream.seed, stream.stream, static_cast<std::uint64_t>(index / size), z);
  return z[index % size].lanes;
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
  return number_at<T, false>("uniform_at", stream, index);
}

template <class T>
T normal_at(random_stream stream, std::int64_t index) {
  return number_at<T, true>("normal_at", stream, index);
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

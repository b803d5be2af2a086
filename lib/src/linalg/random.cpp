#include <fmt/format.h>

#include <limits>
#include <nullscope/core/operation.hpp>
#include <nullscope/linalg/random.hpp>

#include "kernels/linalg/fill_random.hpp"
#include "lib/src/core/checks.hpp"
#include "lib/src/core/ranges.hpp"
#include "lib/src/linalg/row_launch.hpp"

namespace nullscope {
namespace {

template <bool Normal, class T>
sycl::event fill(std::string_view function, context& ctx, view<T, 1> out, random_stream stream, T offset, T scale,
                 const events& dependencies) {
  check::output(function, "out", out);
  if (out.extent[0] > 1 && out.stride[0] != 1) check::fail(function, "out", out, "is not contiguous");
  check::device_type<T>(function, ctx);
  if (!(scale >= 0 && scale <= std::numeric_limits<T>::max())) {
    throw invalid_argument(
        fmt::format("{}: the range or deviation is {}; it must be finite and not negative", function, scale));
  }
  operation op(ctx, function, dependencies);
  lane_layout layout = ctx.layout();
  if (sizeof(T) == 8) layout.vector_bytes = layout.long_vector_bytes;  // eight doubles are faster than twice four
  detail::dispatch_rows<T>(detail::choose_row_shape(layout, out.extent[0], true), [&]<int W, int Items>() {
    using kernel = kernels::fill_random<T, Normal, W, Items>;
    const std::int64_t rounds = Items == 1 ? 256 : 1;  // on a CPU so many that scheduling does not show
    const std::int64_t groups = detail::ceil_div(out.extent[0], kernel::numbers_per_group(rounds));
    op.launch(detail::groups_of(groups, Items), 0,
              kernel{out.data, out.extent[0], stream.seed, stream.stream, offset, scale, rounds});
  });
  return op.submit();
}

template <class T>
sycl::event uniform(context& ctx, view<T, 1> out, random_stream stream, const uniform_options& options,
                    const events& dependencies) {
  const T low = static_cast<T>(options.low), high = static_cast<T>(options.high);
  return fill<false>("fill_uniform", ctx, out, stream, low, high - low, dependencies);
}

template <class T>
sycl::event normal(context& ctx, view<T, 1> out, random_stream stream, const normal_options& options,
                   const events& dependencies) {
  return fill<true>("fill_normal", ctx, out, stream, static_cast<T>(options.mean), static_cast<T>(options.deviation),
                    dependencies);
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

sycl::event fill_uniform(context& ctx, view<float, 1> out, random_stream stream, const uniform_options& options,
                         const events& dependencies) {
  return uniform(ctx, out, stream, options, dependencies);
}
sycl::event fill_uniform(context& ctx, view<double, 1> out, random_stream stream, const uniform_options& options,
                         const events& dependencies) {
  return uniform(ctx, out, stream, options, dependencies);
}

sycl::event fill_normal(context& ctx, view<float, 1> out, random_stream stream, const normal_options& options,
                        const events& dependencies) {
  return normal(ctx, out, stream, options, dependencies);
}
sycl::event fill_normal(context& ctx, view<double, 1> out, random_stream stream, const normal_options& options,
                        const events& dependencies) {
  return normal(ctx, out, stream, options, dependencies);
}

template <class T>
T uniform_at(random_stream stream, std::int64_t index) {
  return number_at<T, false>("uniform_at", stream, index);
}

template <class T>
T normal_at(random_stream stream, std::int64_t index) {
  return number_at<T, true>("normal_at", stream, index);
}

template float uniform_at(random_stream, std::int64_t);
template double uniform_at(random_stream, std::int64_t);
template float normal_at(random_stream, std::int64_t);
template double normal_at(random_stream, std::int64_t);

}  // namespace nullscope

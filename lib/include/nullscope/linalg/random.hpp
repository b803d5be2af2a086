/// Reproducible random numbers: element i of a stream is a function of (seed, stream, i) alone, the same bits on every
/// device, for every launch shape, and on the host. The generator is Philox 4x32-10.
#pragma once

#include <cstdint>
#include <nullscope/core/context.hpp>
#include <nullscope/core/operation.hpp>
#include <nullscope/core/view.hpp>
#include <sycl/sycl.hpp>

namespace nullscope {

/// Which numbers: a seed has 2^64 streams, independent of each other; use one for each purpose.
struct random_stream {
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;
};

struct uniform_options {
  double low = 0, high = 1;
};

/// out[i] uniform between low and high. out is contiguous (stride 1).
/// Throws invalid_argument on a bad view, or if high - low is negative or not finite; unsupported_device if the device
/// lacks double.
sycl::event fill_uniform(context& ctx, view<float, 1> out, random_stream stream, const uniform_options& options = {},
                         const events& dependencies = {});
sycl::event fill_uniform(context& ctx, view<double, 1> out, random_stream stream, const uniform_options& options = {},
                         const events& dependencies = {});

struct normal_options {
  double mean = 0, deviation = 1;
};

/// out[i] normal with this mean and standard deviation; |out[i] - mean| stays below 5.8 (float) or 8.6 (double)
/// deviations. Errors as above.
sycl::event fill_normal(context& ctx, view<float, 1> out, random_stream stream, const normal_options& options = {},
                        const events& dependencies = {});
sycl::event fill_normal(context& ctx, view<double, 1> out, random_stream stream, const normal_options& options = {},
                        const events& dependencies = {});

/// Element `index` of what fill_uniform with low = 0 and high = 1 writes, computed on the host. Throws invalid_argument
/// if the index is negative.
template <class T>
T uniform_at(random_stream stream, std::int64_t index);

/// Element `index` of what fill_normal with mean 0 and deviation 1 writes, computed on the host.
template <class T>
T normal_at(random_stream stream, std::int64_t index);

}  // namespace nullscope

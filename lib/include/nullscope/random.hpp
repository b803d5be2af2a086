/// Reproducible random numbers: element i of a stream is a function of (seed, stream, i) alone, the same bits on every
/// device, for every launch shape, and on the host. The generator is Philox 4x32-10.
#pragma once

#include <cstdint>
#include <nullscope/view.hpp>
#include <sycl/sycl.hpp>
#include <vector>

namespace nullscope {

/// Which numbers: a seed has 2^64 streams, independent of each other; use one for each purpose.
struct random_stream {
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;
};

/// out[i] uniform between low and high. out is contiguous (stride 1). T is float or double.
/// Throws invalid_argument on a bad view, or if high - low is below 0 or no finite number; unsupported_device if the
/// device lacks T.
template <class T>
sycl::event fill_uniform(sycl::queue& queue, view<T, 1> out, random_stream stream, T low, T high,
                         const std::vector<sycl::event>& dependencies = {});

/// out[i] normal with this mean and standard deviation; |out[i] - mean| stays below 5.8 (float) or 8.6 (double)
/// deviations.
template <class T>
sycl::event fill_normal(sycl::queue& queue, view<T, 1> out, random_stream stream, T mean, T deviation,
                        const std::vector<sycl::event>& dependencies = {});

/// Element `index` of what fill_uniform with low = 0 and high = 1 writes, computed on the host. Throws invalid_argument
/// if the index is negative.
template <class T>
T uniform_at(random_stream stream, std::int64_t index);

/// Element `index` of what fill_normal with mean 0 and deviation 1 writes, computed on the host.
template <class T>
T normal_at(random_stream stream, std::int64_t index);

}  // namespace nullscope

/// Random numbers: the reproducible generator against oneMKL's Philox, and against a plain loop on the host.
#include <algorithm>
#include <cmath>
#include <nullscope/core/tensor.hpp>
#include <nullscope/linalg/random.hpp>

#include "bench/core/harness.hpp"

#ifdef NULLSCOPE_HAS_ONEMKL
#include <mkl_vsl.h>
#endif

namespace nullscope::bench {
namespace {

constexpr random_stream numbers_of{7, 3};

template <class T>
struct random_data {
  random_data(context& ctx, std::int64_t count)
      : ctx(ctx), count(count), out(ctx, {count}), host(static_cast<std::size_t>(count)) {}

  context& ctx;
  std::int64_t count;
  tensor<T> out;
  std::vector<T> host;
};

template <class T, bool Normal>
T number_at(std::int64_t i) {
  return Normal ? normal_at<T>(numbers_of, i) : uniform_at<T>(numbers_of, i);
}

/// Ours must be the numbers of the stream, in every bit; oneMKL's must have the moments of the distribution, within
/// some standard errors.
template <class T, bool Normal>
void verify(const random_data<T>& d, report& report) {
  const std::vector<T> got = report.path() == "sycl" ? d.out.to_host() : d.host;
  const double n = static_cast<double>(d.count), mean = Normal ? 0 : 0.5, variance = Normal ? 1 : 1.0 / 12;
  const double fourth = Normal ? 3 : 1.0 / 80;  // central moment
  double sum = 0, squares = 0;
  for (const T x : got) {
    const double distance = static_cast<double>(x) - mean;
    sum += distance;
    squares += distance * distance - variance;
  }
  report.residual("mean", std::abs(sum) / std::sqrt(n * variance), 6);
  report.residual("variance", std::abs(squares) / std::sqrt(n * (fourth - variance * variance)), 6);
  if (report.path() == "onemkl") return;
  const std::int64_t step = std::max<std::int64_t>(1, d.count / 65521);
  double wrong = 0;
  for (std::int64_t i = 0; i < d.count; i += step) wrong += got[static_cast<std::size_t>(i)] != number_at<T, Normal>(i);
  report.residual("wrong", wrong, 0);
}

#ifdef NULLSCOPE_HAS_ONEMKL
/// Numbers [begin, end) of a stream of oneMKL.
template <class T, bool Normal>
void run_onemkl(random_data<T>& d, std::int64_t begin, std::int64_t end) {
  constexpr int method = Normal ? VSL_RNG_METHOD_GAUSSIAN_ICDF : VSL_RNG_METHOD_UNIFORM_STD;
  VSLStreamStatePtr stream = nullptr;
  vslNewStream(&stream, VSL_BRNG_PHILOX4X32X10, 7);
  vslSkipAheadStream(stream, 2 * begin);  // counted in words of 32 bits; a number takes at most two
  T* out = d.host.data() + begin;
  const std::int64_t count = end - begin;
  if constexpr (std::is_same_v<T, float>) {
    Normal ? vsRngGaussian(method, stream, count, out, 0, 1) : vsRngUniform(method, stream, count, out, 0, 1);
  } else {
    Normal ? vdRngGaussian(method, stream, count, out, 0, 1) : vdRngUniform(method, stream, count, out, 0, 1);
  }
  vslDeleteStream(&stream);
}
#endif

template <class T, bool Normal>
void add_random(suite& suite, std::int64_t count) {
  using data = random_data<T>;
  suite
      .add({.operation = Normal ? "normal" : "uniform",
            .type = type_name<T>(),
            .sizes = {{"n", count}},
            .bytes = sizeof(T) * static_cast<double>(count)},
           [=](context& ctx) { return data(ctx, count); })
      .path("sycl",
            [](data& d) {
              if constexpr (Normal) {
                fill_normal(d.ctx, d.out, numbers_of).wait();
              } else {
                fill_uniform(d.ctx, d.out, numbers_of).wait();
              }
            })
#ifdef NULLSCOPE_HAS_ONEMKL
      .path("onemkl",
            [](data& d) {
              parallel_for(d.count,
                           [&](std::int64_t begin, std::int64_t end) { run_onemkl<T, Normal>(d, begin, end); });
            })
#endif
      .path("loop",
            [](data& d) {
              parallel_for(d.count, [&](std::int64_t begin, std::int64_t end) {
                for (std::int64_t i = begin; i < end; ++i) {
                  d.host[static_cast<std::size_t>(i)] = number_at<T, Normal>(i);
                }
              });
            })
      .clear([](data& d) {
        d.ctx.queue().fill(d.out.data(), std::numeric_limits<T>::quiet_NaN(), static_cast<std::size_t>(d.count)).wait();
        std::fill(d.host.begin(), d.host.end(), std::numeric_limits<T>::quiet_NaN());
      })
      .verify([](data& d, report& report) { verify<T, Normal>(d, report); });
}

}  // namespace
}  // namespace nullscope::bench

int main(int argc, char** argv) {
  using namespace nullscope::bench;
  return run(argc, argv, "random numbers: uniform and normal", [](suite& suite) {
    for (const std::int64_t count : {1 << 17, 1 << 21, 1 << 25}) {
      add_random<float, false>(suite, count);
      add_random<float, true>(suite, count);
      add_random<double, false>(suite, count);
      add_random<double, true>(suite, count);
    }
  });
}

/// What the tests share: the devices they run on, seeded numbers, scaled residuals.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <limits>
#include <nullscope/device.hpp>
#include <nullscope/errors.hpp>
#include <random>
#include <string>
#include <vector>

namespace nullscope::test {

/// A test that runs on every device that is there:
///   INSTANTIATE_TEST_SUITE_P(devices, my_test, testing::ValuesIn(devices()), test::device_name);
class device_test : public testing::TestWithParam<sycl::device> {
 protected:
  sycl::queue queue_{GetParam(), sycl::property::queue::in_order{}};
  bool has_fp64() const { return properties(GetParam()).fp64; }
};

inline std::string device_name(const testing::TestParamInfo<sycl::device>& info) {
  std::string name = std::string(to_string(properties(info.param).kind)) + std::to_string(info.index);
  return name;
}

/// Numbers in [-1, 1) that depend on the seed alone.
template <class T>
std::vector<T> random_numbers(std::int64_t count, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::vector<T> numbers(static_cast<std::size_t>(count));
  for (T& x : numbers) x = static_cast<T>(static_cast<double>(generator() >> 11) * 0x1p-52 - 1.0);
  return numbers;
}

/// The larger one of two errors. NaN is the largest: std::max(error, NaN) would be `error`, and a wrong result pass.
inline double worse(double a, double b) { return a > b || std::isnan(a) ? a : b; }

/// |got - expected|_F / (|expected|_F * depth * eps): of order 1 for a backward stable algorithm that adds `depth`
/// terms. NaN or infinity in `got` gives infinity, so that a comparison with a bound fails.
template <class T>
double scaled_residual(const std::vector<T>& got, const std::vector<double>& expected, double depth) {
  EXPECT_EQ(got.size(), expected.size());
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < std::min(got.size(), expected.size()); ++i) {
    const double d = static_cast<double>(got[i]) - expected[i];
    difference += d * d;
    norm += expected[i] * expected[i];
  }
  if (!std::isfinite(difference)) return std::numeric_limits<double>::infinity();
  if (norm == 0) return difference == 0 ? 0 : std::numeric_limits<double>::infinity();
  return std::sqrt(difference / norm) / (depth * static_cast<double>(std::numeric_limits<T>::epsilon()));
}

/// Runs `call`, which must throw `Error`, and returns the message.
template <class Error, class Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const Error& failure) {
    return failure.what();
  } catch (const std::exception& failure) {
    ADD_FAILURE() << "another error was thrown: " << failure.what();
    return "";
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

}  // namespace nullscope::test

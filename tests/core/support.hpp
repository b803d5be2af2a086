/// What the tests share: the devices they run on, seeded numbers, expected errors.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <nullscope/core/context.hpp>
#include <nullscope/core/device.hpp>
#include <nullscope/core/errors.hpp>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tests/core/residuals.hpp"

namespace nullscope::test {

/// In order, unless ctest asks for the other kind: it runs the tests of whole pipelines on both.
inline sycl::property_list chosen_order() {
  const char* const chosen = std::getenv("NULLSCOPE_TEST_QUEUE");
  if (chosen != nullptr && std::string_view(chosen) == "out_of_order") return {};
  return {sycl::property::queue::in_order{}};
}

/// A test that runs on every device that is there:
///   INSTANTIATE_TEST_SUITE_P(devices, my_test, testing::ValuesIn(devices()), test::device_name);
class device_test : public testing::TestWithParam<sycl::device> {
 protected:
  sycl::queue queue_{GetParam(), chosen_order()};
  context ctx_{queue_};
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

#include <bit>
#include <nullscope/core/operation.hpp>
#include <nullscope/core/tensor.hpp>

#include "tests/core/support.hpp"
#include "tests/simd/pack_kernels.hpp"

namespace nullscope {

#ifndef NULLSCOPE_SINGLE_SOURCE
std::vector<kernel_header> pack_kernel_headers();  // written by the build
#endif

namespace test {
namespace {

constexpr int widths[] = {1, 2, 4, 8, 16};
constexpr std::size_t all_results = std::size(widths) * results_per_width;

/// a, b and c of pack_operations: both signs, equal numbers, zeros; nothing that gives NaN.
template <class T>
std::vector<T> operands() {
  std::vector<T> numbers = random_numbers<T>(3 * widest, 41);
  for (T& x : numbers) x *= 8;
  numbers[3] = numbers[widest + 3];
  numbers[4] = 0;
  numbers[5] = T(-0.0);
  return numbers;
}

/// Compares the results of pack_operations with arithmetic on plain numbers.
template <class T>
void check_operations(const std::vector<T>& numbers, const std::vector<T>& results) {
  const T* a = numbers.data();
  const T *b = a + widest, *c = b + widest;
  constexpr T eps = std::numeric_limits<T>::epsilon();
  for (std::size_t w = 0; w < std::size(widths); ++w) {
    const int width = widths[w];
    const T* r = results.data() + w * results_per_width;
    T sum = 0, sum_of_sizes = 0;
    for (int i = 0; i < width; ++i) {
      SCOPED_TRACE("width " + std::to_string(width) + ", lane " + std::to_string(i));
      const auto got = [&](int operation) { return r[operation * widest + i]; };
      EXPECT_EQ(got(0), a[i] + b[i]);
      EXPECT_EQ(got(1), a[i] - b[i]);
      EXPECT_EQ(got(2), a[i] * b[i]);
      EXPECT_NEAR(got(3), a[i] / b[i], 3 * eps * std::abs(a[i] / b[i]));
      EXPECT_EQ(got(4), -a[i]);
      EXPECT_NEAR(got(5), std::fma(a[i], b[i], c[i]), eps * (std::abs(a[i] * b[i]) + std::abs(c[i])));
      EXPECT_EQ(got(6), std::max(a[i], b[i]));
      EXPECT_EQ(got(7), std::min(a[i], b[i]));
      EXPECT_EQ(got(8), std::max(a[i], b[i]));
      EXPECT_EQ(got(9), std::abs(a[i]));
      EXPECT_EQ(got(10), a[i] < b[i] ? c[i] : -c[i]);
      EXPECT_EQ(got(11), a[1]);
      EXPECT_NEAR(got(12), (a[i] + b[i] - c[i]) * b[i], 200 * eps);
      EXPECT_NEAR(got(13), std::exp(a[i]), 2 * eps * std::exp(a[i]));
      EXPECT_NEAR(got(14), std::exp(-std::abs(a[i])), 2 * eps);
      EXPECT_EQ(got(15), static_cast<T>(static_cast<float>(a[i])));
      EXPECT_EQ(got(17), 1) << "any_less";
      if (width > 1) {
        EXPECT_EQ(got(18), a[(i + width / 2) % width]);
        EXPECT_EQ(got(19), a[(i + width / 2) % width]);
      }
      sum += a[i];
      sum_of_sizes += std::abs(a[i]);
    }
    const T* scalars = r + 16 * widest;
    EXPECT_NEAR(scalars[0], sum, 8 * eps * sum_of_sizes) << width;
    EXPECT_EQ(scalars[1], *std::max_element(a, a + width)) << width;
    EXPECT_EQ(scalars[2], a[width - 1]) << width;
    EXPECT_EQ(scalars[3], b[0]) << width;
    EXPECT_EQ(scalars[4], 0) << width;
  }
}

/// all and some are what pack_tail gave for 1, 2, 3, ...: element (count, lane).
template <class T>
void check_tails(int width, const std::vector<T>& all, const std::vector<T>& some, float untouched) {
  for (int count = 0; count <= width; ++count) {
    for (int lane = 0; lane < width; ++lane) {
      const auto at = static_cast<std::size_t>(count * widest + lane);
      EXPECT_EQ(static_cast<float>(all[at]), lane < count ? static_cast<float>(lane + 1) : 9.f)
          << width << ", " << count;
      EXPECT_EQ(static_cast<float>(some[at]), lane < count ? static_cast<float>(lane + 1) : untouched)
          << width << ", " << count;
    }
  }
}

template <class T, int W>
std::vector<T> one_two_three() {
  std::vector<T> numbers;
  for (int i = 0; i < W; ++i) numbers.push_back(static_cast<T>(static_cast<float>(i + 1)));
  return numbers;
}

template <class T, int W>
void check_tails_on_the_host() {
  const std::vector<T> from = one_two_three<T, W>();
  std::vector<T> all((widest + 1) * widest), some((widest + 1) * widest, static_cast<T>(-5.f));
  for (int count = 0; count <= W; ++count) {
    const std::vector<T> no_more(from.begin(), from.begin() + count);  // a sanitizer sees a read beyond
    pack_tail<T, W>(no_more.data(), count, all.data() + count * widest, some.data() + count * widest);
  }
  check_tails(W, all, some, -5);
}

template <class T>
void check_host() {
  const std::vector<T> numbers = operands<T>();
  std::vector<T> results(all_results);
  pack_operations<T, 1>(numbers.data(), results.data());
  pack_operations<T, 2>(numbers.data(), results.data() + results_per_width);
  pack_operations<T, 4>(numbers.data(), results.data() + 2 * results_per_width);
  pack_operations<T, 8>(numbers.data(), results.data() + 3 * results_per_width);
  pack_operations<T, 16>(numbers.data(), results.data() + 4 * results_per_width);
  check_operations(numbers, results);
  check_tails_on_the_host<T, 1>();
  check_tails_on_the_host<T, 2>();
  check_tails_on_the_host<T, 4>();
  check_tails_on_the_host<T, 8>();
  check_tails_on_the_host<T, 16>();
}

TEST(pack, works_on_the_host) {
  check_host<float>();
  check_host<double>();
  check_tails_on_the_host<bfloat16, 1>();
  check_tails_on_the_host<bfloat16, 16>();
}

TEST(pack, handles_nan_as_it_says) {
  using numbers = kernels::pack<float, 4>;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(max(numbers(nan), numbers(1))[2], 1);
  EXPECT_TRUE(std::isnan(max(numbers(1), numbers(nan))[2]));
  EXPECT_EQ(min(numbers(nan), numbers(1))[2], 1);
  EXPECT_TRUE(std::isnan(max_or_nan(numbers(1), numbers(nan))[2]));
  EXPECT_TRUE(std::isnan(max_or_nan(numbers(nan), numbers(1))[2]));
  EXPECT_TRUE(std::isnan(abs(numbers(nan))[2]));
  EXPECT_EQ(where_less(numbers(nan), numbers(1), numbers(2), numbers(3))[2], 3);
  EXPECT_TRUE(std::signbit(numbers(-0.f)[2]));
}

class pack_test : public device_test {
 protected:
  static void SetUpTestSuite() {
#ifndef NULLSCOPE_SINGLE_SOURCE
    add_kernel_headers(pack_kernel_headers());
#endif
  }

  template <class T>
  void check_device() {
    const std::vector<T> numbers = operands<T>();
    tensor<T> x(queue_, {3 * widest}, numbers), results(queue_, {static_cast<std::int64_t>(all_results)});
    launch(ctx_, sycl::nd_range<1>{1, 1}, 0, pack_probe<T>{x.data(), results.data()}).wait();
    check_operations(numbers, results.to_host());
  }

  template <class T, int W>
  void check_device_tails() {
    tensor<T> x(queue_, {W}, one_two_three<T, W>());
    const std::vector<T> blank((widest + 1) * widest, static_cast<T>(-5.f));
    tensor<T> all(queue_, {(widest + 1) * widest}, blank), some(queue_, {(widest + 1) * widest}, blank);
    launch(ctx_, sycl::nd_range<1>{W + 1, 1}, 0, tail_probe<T, W>{x.data(), all.data(), some.data()}).wait();
    check_tails(W, all.to_host(), some.to_host(), -5);
  }
};

INSTANTIATE_TEST_SUITE_P(devices, pack_test, testing::ValuesIn(devices()), device_name);

TEST_P(pack_test, works_in_a_kernel) {
  check_device<float>();
  if (has_fp64()) check_device<double>();
}

TEST_P(pack_test, tails_touch_nothing_beyond) {
  check_device_tails<float, 1>();
  check_device_tails<float, 16>();
  check_device_tails<bfloat16, 16>();
  if (has_fp64()) check_device_tails<double, 8>();
}

}  // namespace
}  // namespace test
}  // namespace nullscope

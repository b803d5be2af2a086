#include <nullscope/core/tensor.hpp>
#include <nullscope/linalg/random.hpp>

#include "kernels/simd/random_numbers.hpp"
#include "tests/core/layouts.hpp"
#include "tests/core/support.hpp"

namespace nullscope::test {
namespace {

TEST(philox, gives_the_published_test_vectors) {
  const auto words = [](std::uint64_t seed, std::uint64_t stream, std::uint64_t block) {
    const kernels::philox_blocks<1> b = kernels::philox<1>(seed, stream, block);
    return std::vector<std::uint64_t>(b.word, b.word + 4);
  };
  EXPECT_EQ(words(0, 0, 0), (std::vector<std::uint64_t>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(words(0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88),
            (std::vector<std::uint64_t>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(philox, gives_neighbouring_blocks_in_its_lanes) {
  const std::uint64_t first = 0xfffffffd;  // the counter's low word overflows on the way
  const kernels::philox_blocks<8> several = kernels::philox<8>(5, 6, first);
  for (int lane = 0; lane < 8; ++lane) {
    const kernels::philox_blocks<1> one = kernels::philox<1>(5, 6, first + static_cast<std::uint64_t>(lane));
    for (int i = 0; i < 4; ++i) EXPECT_EQ(several.word[i][lane], one.word[i]) << "lane " << lane;
  }
}

template <class T>
T log_of(T x) {
  return kernels::portable_log(kernels::pack<T, 1>(x)).lanes;
}
template <class T>
T sqrt_of(T x) {
  return kernels::portable_sqrt(kernels::pack<T, 1>(x)).lanes;
}
template <class T>
std::pair<T, T> sine_and_cosine(T turns) {
  const auto found = kernels::sine_cosine_of_turns(kernels::pack<T, 1>(turns));
  return {found.sine.lanes, found.cosine.lanes};
}

template <class T>
double worst_error_in_ulp(T (*function)(T), double (*exact)(double), const std::vector<T>& points) {
  double worst = 0;
  for (const T x : points) {
    const double expected = exact(static_cast<double>(x));
    const double ulp = std::abs(expected) * static_cast<double>(std::numeric_limits<T>::epsilon());
    worst = worse(worst, std::abs(static_cast<double>(function(x)) - expected) / ulp);
  }
  return worst;
}

TEST(worst_error_in_ulp, is_within_no_bound_if_a_result_is_not_a_number) {
  const auto wrong_at_two = +[](float x) { return x == 2 ? std::numeric_limits<float>::quiet_NaN() : std::sqrt(x); };
  EXPECT_FALSE(worst_error_in_ulp<float>(wrong_at_two, std::sqrt, {1, 2, 3}) < 10);
}

TEST(portable_functions, are_accurate_to_a_few_units_in_the_last_place) {
  std::vector<float> small, large;
  for (int i = 1; i < 100000; ++i) {
    small.push_back(static_cast<float>(i) * 1e-5f);
    large.push_back(static_cast<float>(i) * 3.4e-4f);
  }
  for (int e = 1; e <= 24; ++e) small.push_back(std::ldexp(1.0f, -e));
  EXPECT_LT(worst_error_in_ulp<float>(log_of<float>, std::log, small), 4);
  EXPECT_LT(worst_error_in_ulp<float>(sqrt_of<float>, std::sqrt, large), 2);
  for (const float u : small) {
    const auto [sine, cosine] = sine_and_cosine(u);
    EXPECT_NEAR(sine, std::sin(2 * M_PI * static_cast<double>(u)), 2e-7);
    EXPECT_NEAR(cosine, std::cos(2 * M_PI * static_cast<double>(u)), 2e-7);
  }
  for (int i = 1; i < 20000; ++i) {
    const double u = i * 5e-5 + 1e-13;
    EXPECT_NEAR(log_of(u), std::log(u), 4e-16 * std::max(1.0, -std::log(u)));
    EXPECT_NEAR(sqrt_of(33 * u), std::sqrt(33 * u), 4e-16 * std::sqrt(33 * u));
    if (u < 1) {
      EXPECT_NEAR(sine_and_cosine(u).first, std::sin(2 * M_PI * u), 1e-15);
      EXPECT_NEAR(sine_and_cosine(u).second, std::cos(2 * M_PI * u), 1e-15);
    }
  }
}

class random_test : public device_test {
 protected:
  /// Device and host agree in every bit, for sizes that end inside a block, a pack and a group.
  template <class T>
  void check_bits(const std::vector<lane_layout>& layouts) {
    const random_stream stream{0x123456789abcdef, 42};
    for (const lane_layout& layout : layouts) {
      SCOPED_TRACE(name_of(layout));
      context ctx(queue_, layout);
      for (const std::int64_t count : {0, 1, 2, 3, 5, 255, 257, 1001, 20003}) {
        tensor<T> uniform(ctx, {count}), normal(ctx, {count});
        fill_uniform(ctx, uniform.template as<1>(), stream).wait();
        fill_normal(ctx, normal.template as<1>(), stream).wait();
        const std::vector<T> u = uniform.to_host(), z = normal.to_host();
        for (std::int64_t i = 0; i < count; ++i) {
          ASSERT_EQ(u[static_cast<std::size_t>(i)], uniform_at<T>(stream, i)) << i << " of " << count;
          ASSERT_EQ(z[static_cast<std::size_t>(i)], normal_at<T>(stream, i)) << i << " of " << count;
        }
      }
    }
  }

  /// Mean, variance, skewness, kurtosis and lag-1 correlation within five standard errors.
  template <class T>
  void check_moments() {
    constexpr std::int64_t count = 1 << 20;
    const double n = count;
    tensor<T> x(ctx_, {count});
    fill_normal(ctx_, x.template as<1>(), {7, 1}, {.mean = 3, .deviation = 2}).wait();
    double sum[5] = {}, lag = 0, before = 0;
    for (const T value : x.to_host()) {
      const double z = (static_cast<double>(value) - 3) / 2;
      double power = 1;
      for (double& s : sum) s += power, power *= z;
      lag += z * before;
      before = z;
    }
    EXPECT_NEAR(sum[1] / n, 0, 5 / std::sqrt(n));
    EXPECT_NEAR(sum[2] / n, 1, 5 * std::sqrt(2 / n));
    EXPECT_NEAR(sum[3] / n, 0, 5 * std::sqrt(15 / n));
    EXPECT_NEAR(sum[4] / n, 3, 5 * std::sqrt(96 / n));
    EXPECT_NEAR(lag / n, 0, 5 / std::sqrt(n));
    fill_uniform(ctx_, x.template as<1>(), {7, 1}, {.low = -1, .high = 3}).wait();
    double mean = 0, square = 0;
    for (const T value : x.to_host()) {
      ASSERT_GE(value, -1);
      ASSERT_LE(value, 3);
      mean += static_cast<double>(value) / n;
      square += (static_cast<double>(value) - 1) * (static_cast<double>(value) - 1) / n;
    }
    EXPECT_NEAR(mean, 1, 5 * std::sqrt(16.0 / 12 / n));
    EXPECT_NEAR(square, 16.0 / 12, 5 * std::sqrt(256.0 / 180 / n));
  }
};
INSTANTIATE_TEST_SUITE_P(devices, random_test, testing::ValuesIn(devices()), device_name);

TEST_P(random_test, gives_the_same_bits_on_device_and_host) {
  const device_properties& device = properties(GetParam());
  const lane_layout wide = lane_layout::vectors(device, 64), group = lane_layout::work_items(device, 32);
  check_bits<float>(compiled({wide, lane_layout::vectors(device, 32), group}));
  if (has_fp64()) check_bits<double>(compiled({wide, group}));
}

TEST_P(random_test, has_the_moments_of_its_distributions) {
  check_moments<float>();
  if (has_fp64()) check_moments<double>();
}

TEST_P(random_test, streams_and_seeds_differ) {
  const random_stream streams[] = {{1, 0}, {1, 1}, {2, 0}, {1ull << 40, 0}, {1, 1ull << 40}};
  for (const auto& a : streams) {
    for (const auto& b : streams) {
      EXPECT_EQ(&a == &b, uniform_at<double>(a, 5) == uniform_at<double>(b, 5));
    }
  }
}

TEST_P(random_test, refuses_bad_arguments) {
  tensor<float> x(ctx_, {8});
  EXPECT_EQ(message_of<invalid_argument>([&] { fill_uniform(ctx_, x.as<1>(), {}, {.low = 1, .high = 0}); }),
            "fill_uniform: the range or deviation is -1; it must be finite and not negative");
  constexpr double largest = std::numeric_limits<float>::max();
  EXPECT_EQ(
      message_of<invalid_argument>([&] { fill_uniform(ctx_, x.as<1>(), {}, {.low = -largest, .high = largest}); }),
      "fill_uniform: the range or deviation is inf; it must be finite and not negative");
  EXPECT_EQ(message_of<invalid_argument>([&] { normal_at<double>({}, -1); }), "normal_at: the index -1 is negative");
  EXPECT_EQ(message_of<invalid_argument>([&] {
              fill_normal(ctx_, view<float, 1>{x.data(), {4}, {2}}, {});
            }),
            "fill_normal: out (4) with strides (2) is not contiguous");
  EXPECT_EQ(message_of<invalid_argument>([&] {
              fill_normal(ctx_, view<float, 1>{nullptr, {4}, {1}}, {});
            }),
            "fill_normal: out (4) with strides (1) has a null pointer");
}

}  // namespace
}  // namespace nullscope::test

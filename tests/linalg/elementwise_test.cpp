#include <bit>
#include <nullscope/core/tensor.hpp>
#include <nullscope/linalg/rows.hpp>
#include <numbers>

#include "tests/linalg/layout_test.hpp"
#include "tests/linalg/matrix_layout.hpp"

namespace nullscope::test {
namespace {

constexpr auto infinity = std::numeric_limits<float>::infinity();
constexpr auto not_a_number = std::numeric_limits<float>::quiet_NaN();

/// In long double where it matters: erfc magnifies the rounding of its argument by x^2.
double reference(unary_function function, double x) {
  switch (function) {
    case unary_function::exp: return std::exp(x);
    case unary_function::relu: return std::max(x, 0.0);
    case unary_function::gelu: return static_cast<double>(x * std::erfc(-x / std::sqrt(2.0L)) / 2);
    case unary_function::gelu_tanh: break;
  }
  return x / (1 + std::exp(-2 * std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

/// The largest |got - expected| in units of |expected| eps, or of the smallest normal number where that is larger.
template <class T>
double largest_error(const std::vector<T>& got, const std::vector<double>& expected) {
  EXPECT_EQ(got.size(), expected.size());
  double largest = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double unit = std::max<double>(std::abs(expected[i]), std::numeric_limits<T>::min()) *
                        static_cast<double>(std::numeric_limits<T>::epsilon());
    largest = worse(largest, std::abs(static_cast<double>(got[i]) - expected[i]) / unit);
  }
  return largest;
}

TEST(largest_error, is_within_no_bound_if_a_result_is_not_a_number) {
  EXPECT_FALSE(largest_error<float>({1, not_a_number, 1}, {1, 1, 1}) < 10);
}

class elementwise_test : public layout_test {
 protected:
  template <class T>
  std::vector<T> apply_to(unary_function function, const std::vector<T>& numbers) {
    const auto n = static_cast<std::int64_t>(numbers.size());
    tensor<T> x(queue_, {n}, numbers), out(queue_, {n});
    apply(ctx_, x, out, function).wait();
    return out.to_host();
  }

  /// Numbers in (-range, range) of both signs: of all magnitudes, and evenly spread.
  template <class T>
  static std::vector<T> many_sizes(double range) {
    std::vector<T> numbers;
    for (double x = range; x > 1e-36; x *= 0.997) {
      numbers.push_back(static_cast<T>(x));
      numbers.push_back(static_cast<T>(-x));
    }
    constexpr int steps = 20000;
    for (int i = -steps; i < steps; ++i) numbers.push_back(static_cast<T>(range * (i + 0.37) / steps));
    return numbers;
  }

  template <class T>
  double error_of(unary_function function, double range) {
    const std::vector<T> numbers = many_sizes<T>(range);
    std::vector<double> expected;
    for (const T x : numbers) expected.push_back(reference(function, static_cast<double>(x)));
    return largest_error(apply_to(function, numbers), expected);
  }

  /// Copies a matrix of T from one layout to another, both (batch, rows, columns), and compares.
  template <class From, class To>
  void check_copy(const layout& from, const layout& to) {
    std::vector<From> host;
    for (const float x : random_numbers<float>(from.size(), 23)) host.push_back(static_cast<From>(x));
    const To rubbish = static_cast<To>(77.f);
    tensor<From> x(queue_, {from.size()}, host);
    tensor<To> out(queue_, {to.size()}, std::vector<To>(static_cast<std::size_t>(to.size()), rubbish));
    copy(ctx_, from.of(x.data()), to.of(out.data())).wait();
    const std::vector<To> got = to.elements(out.to_host(), rubbish);
    std::size_t k = 0;
    from.for_each([&](std::size_t at) {
      EXPECT_EQ(static_cast<float>(got[k]), static_cast<float>(static_cast<To>(static_cast<float>(host[at])))) << k;
      ++k;
    });
  }
};

INSTANTIATE_TEST_SUITE_P(devices, elementwise_test, testing::ValuesIn(devices()), device_name);

TEST_P(elementwise_test, axpby_scale_and_multiply_take_all_layouts) {
  with_layouts({vectors(64), vectors(32), work_items(1), work_items(32)}, [&] {
    for (const layout& l : layouts) {
      SCOPED_TRACE(l.name());
      const layout dense{l.batch, l.rows, l.columns};
      const std::vector<float> a = random_numbers<float>(l.size(), 1), b = random_numbers<float>(dense.size(), 2);
      std::vector<double> sum, product, scaled;
      std::size_t k = 0;
      l.for_each([&](std::size_t at) {
        sum.push_back(2.0 * a[at] - 0.5 * b[k]);
        product.push_back(static_cast<double>(a[at]) * b[k]);
        scaled.push_back(-3.0 * a[at]);
        ++k;
      });
      const float rubbish = 77;
      const std::vector<float> blank(static_cast<std::size_t>(l.size()), rubbish);
      tensor<float> x(queue_, {l.size()}, a), y(queue_, {dense.size()}, b), out(queue_, {l.size()}, blank);
      axpby(ctx_, {l.of(x.data()), dense.of(y.data())}, l.of(out.data()), {.alpha = 2, .beta = -0.5}).wait();
      EXPECT_LT(scaled_residual(l.elements(out.to_host(), rubbish), sum, 1), 1);
      out.copy_from(blank);
      multiply(ctx_, {l.of(x.data()), dense.of(y.data())}, l.of(out.data())).wait();
      EXPECT_LT(scaled_residual(l.elements(out.to_host(), rubbish), product, 1), 1);
      out.copy_from(blank);
      scale(ctx_, l.of(x.data()), l.of(out.data()), -3).wait();
      EXPECT_LT(scaled_residual(l.elements(out.to_host(), rubbish), scaled, 1), 1);
      copy(ctx_, l.of(x.data()), l.of(out.data())).wait();
      scale(ctx_, l.of(out.data()), l.of(out.data()), -3).wait();  // in place
      EXPECT_LT(scaled_residual(l.elements(out.to_host(), rubbish), scaled, 1), 1);
    }
  });
}

TEST_P(elementwise_test, an_input_of_stride_zero_is_repeated) {
  tensor<float> x(queue_, {2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6}),
      bias(queue_, {3}, std::vector<float>{10, 20, 30});
  axpby(ctx_, {x, view<const float, 2>{bias.data(), {2, 3}, {0, 1}}}, x).wait();
  EXPECT_EQ(x.to_host(), (std::vector<float>{11, 22, 33, 14, 25, 36}));
  multiply(ctx_, {x, view<const float, 2>{bias.data(), {2, 3}, {0, 0}}}, x).wait();
  EXPECT_EQ(x.to_host(), (std::vector<float>{110, 220, 330, 140, 250, 360}));
}

TEST_P(elementwise_test, functions_are_accurate_relative_to_their_results) {
  with_layouts({vectors(64), vectors(32), work_items(32)}, [&] {
    EXPECT_LT(error_of<float>(unary_function::exp, 88.7), 2);
    EXPECT_EQ(error_of<float>(unary_function::relu, 100), 0);
    EXPECT_LT(error_of<float>(unary_function::exp, 86), 2);  // within the range of one factor 2^n
    EXPECT_LT(error_of<float>(unary_function::gelu, 12), 8);
    EXPECT_LT(error_of<float>(unary_function::gelu, 3.7), 8);  // without the tails
    EXPECT_LT(error_of<float>(unary_function::gelu_tanh, 2), 8);
    EXPECT_LT(error_of<float>(unary_function::gelu_tanh, 8), 80);  // e^z magnifies the rounding of z
  });
  if (!has_fp64()) return;
  with_layouts({vectors(64), vectors(32), work_items(32)}, [&] {
    EXPECT_LT(error_of<double>(unary_function::exp, 709.7), 2);
    EXPECT_LT(error_of<double>(unary_function::exp, 700), 2);
    EXPECT_LT(error_of<double>(unary_function::gelu, 35), 16);
    EXPECT_LT(error_of<double>(unary_function::gelu, 3.7), 8);
    EXPECT_LT(error_of<double>(unary_function::gelu_tanh, 2), 8);
  });
}

TEST_P(elementwise_test, a_result_does_not_depend_on_its_neighbours) {
  with_layouts({vectors(64), vectors(32)}, [&] {
    for (const auto function : {unary_function::exp, unary_function::gelu, unary_function::gelu_tanh}) {
      const std::vector<float> numbers = random_numbers<float>(1000, 31);
      std::vector<float> with_large(2 * numbers.size(), 95);  // beyond the range of the short versions of exp and gelu
      for (std::size_t i = 0; i < numbers.size(); ++i) with_large[2 * i] = numbers[i];
      const std::vector<float> alone = apply_to(function, numbers), among = apply_to(function, with_large);
      for (std::size_t i = 0; i < numbers.size(); ++i) EXPECT_EQ(alone[i], among[2 * i]) << numbers[i];
    }
  });
}

TEST_P(elementwise_test, functions_have_their_limits_at_infinity_and_keep_nan) {
  const float smallest = std::numeric_limits<float>::denorm_min();
  const std::vector<float> numbers{-infinity, infinity, not_a_number, 0,    -0.f,   1e30f,
                                   -1e30f,    -88,      -103.9f,      -104, 88.73f, 1e-42f};
  const std::vector<float> e = apply_to(unary_function::exp, numbers);
  EXPECT_EQ(e[0], 0);
  EXPECT_EQ(e[1], infinity);
  EXPECT_TRUE(std::isnan(e[2]));
  EXPECT_EQ(e[3], 1);
  EXPECT_EQ(e[4], 1);
  EXPECT_EQ(e[5], infinity);
  EXPECT_EQ(e[6], 0);
  EXPECT_NEAR(e[7], std::exp(-88.0), 2 * smallest);
  EXPECT_EQ(e[8], smallest);
  EXPECT_EQ(e[9], 0);
  EXPECT_EQ(e[10], infinity);
  for (const auto function : {unary_function::relu, unary_function::gelu, unary_function::gelu_tanh}) {
    const std::vector<float> y = apply_to(function, numbers);
    EXPECT_EQ(y[0], 0);
    EXPECT_EQ(y[1], infinity);
    EXPECT_TRUE(std::isnan(y[2]));
    EXPECT_EQ(y[3], 0);
    EXPECT_EQ(y[4], 0);
    EXPECT_EQ(y[5], 1e30f);
    EXPECT_EQ(y[6], 0);
  }
  const float signalling = std::bit_cast<float>(0x7f800001u);  // its low bits must not leak into the exponent
  EXPECT_TRUE(std::isnan(apply_to(unary_function::exp, std::vector<float>{signalling})[0]));
}

TEST_P(elementwise_test, copies_between_layouts) {
  with_layouts({vectors(64), work_items(32)}, [&] {
    for (const layout& l : layouts) {
      SCOPED_TRACE(l.name());
      const layout dense{l.batch, l.rows, l.columns}, wide{l.batch, l.rows, l.columns, 1, 9, 4};
      check_copy<float, float>(l, dense);
      check_copy<float, float>(wide, l);
    }
  });
}

TEST_P(elementwise_test, converts_between_types) {
  with_layouts({vectors(64), vectors(32), work_items(1), work_items(32)}, [&] {
    for (const layout& l : {layout{1, 1, 1}, layout{2, 3, 37}, layout{1, 2, 64, 1, 3}, layout{1, 3, 5, 2}}) {
      SCOPED_TRACE(l.name());
      check_copy<float, bfloat16>(l, l);
      check_copy<bfloat16, float>(l, l);
      if (!has_fp64()) continue;
      check_copy<float, double>(l, l);
      check_copy<double, float>(l, l);
    }
  });
  check_copy<bfloat16, bfloat16>({1, 3, 50}, {1, 3, 50, 1, 2});
  if (has_fp64()) check_copy<double, double>({1, 3, 50}, {1, 3, 50, 1, 2});
}

TEST_P(elementwise_test, rounds_to_bfloat16_as_the_host_does) {
  std::vector<float> numbers = random_numbers<float>(1000, 31);
  for (const std::uint32_t word :
       {0x3f808000u, 0x3f818000u, 0x3f808001u, 0x3f807fffu, 0x7f7fffffu, 0x7f800000u, 0xff800000u, 0x7f800001u,
        0x7fffffffu, 0xffc00000u, 0x00000001u, 0x80000000u, 0x00008000u}) {
    numbers.push_back(std::bit_cast<float>(word));
  }
  const auto n = static_cast<std::int64_t>(numbers.size());
  tensor<float> x(queue_, {n}, numbers);
  tensor<bfloat16> out(queue_, {n});
  copy(ctx_, x, out).wait();
  const std::vector<bfloat16> got = out.to_host();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    EXPECT_EQ(got[i].bits, bfloat16(numbers[i]).bits) << std::hex << std::bit_cast<std::uint32_t>(numbers[i]);
  }
}

TEST_P(elementwise_test, transposes) {
  const auto check = [&]<class T>(T, std::int64_t batch, std::int64_t rows, std::int64_t columns, std::int64_t gap) {
    const layout from{batch, rows, columns, 1, gap, 2 * gap}, to{batch, columns, rows, 1, 2 * gap, gap};
    SCOPED_TRACE(from.name());
    std::vector<T> host;
    for (const float x : random_numbers<float>(from.size(), 29)) host.push_back(static_cast<T>(x));
    const T rubbish = static_cast<T>(77.f);
    tensor<T> x(queue_, {from.size()}, host);
    tensor<T> out(queue_, {to.size()}, std::vector<T>(static_cast<std::size_t>(to.size()), rubbish));
    transpose(ctx_, from.of(x.data()), to.of(out.data())).wait();
    const std::vector<T> got = to.elements(out.to_host(), rubbish);
    std::size_t k = 0;
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t j = 0; j < columns; ++j) {
        for (std::int64_t i = 0; i < rows; ++i) EXPECT_EQ(got[k++], host[from.offset(b, i, j)]);
      }
    }
  };
  lane_layout short_vectors = vectors(32);
  short_vectors.long_vector_bytes = 32;
  with_layouts({vectors(64), vectors(32), short_vectors, work_items(256)}, [&] {
    for (const auto& [rows, columns] :
         {std::pair{1, 1}, std::pair{1, 40}, std::pair{40, 1}, std::pair{16, 16}, std::pair{17, 31}, std::pair{64, 64},
          std::pair{48, 40}, std::pair{65, 130}, std::pair{200, 33}, std::pair{0, 3}}) {
      check(0.f, 2, rows, columns, 3);
      check(bfloat16(0.f), 1, rows, columns, 0);
      if (has_fp64()) check(0.0, 2, rows, columns, 1);
    }
  });
}

TEST_P(elementwise_test, streaming_stores_write_the_same) {
  if (!detail::has_cpu_layouts) GTEST_SKIP() << "this build has no layouts of CPUs";
  // Rows begin at cache lines and end inside one.
  const auto check = [&]<class T>(T, std::int64_t rows, std::int64_t columns, std::int64_t stride) {
    std::vector<T> host;
    for (const float x : random_numbers<float>(stride * stride, 6)) host.push_back(static_cast<T>(x));
    tensor<T> x(queue_, {stride * stride}, host);
    const view<const T, 2> from{x.data(), {rows, columns}, {stride, 1}};
    const auto run = [&](const lane_layout& layout) {
      use_layout(layout);
      tensor<T> out(queue_, {5, stride, stride}, std::vector<T>(5 * host.size(), static_cast<T>(77.f)));
      T* to = out.data();
      transpose(ctx_, from, view<T, 2>{to, {columns, rows}, {stride, 1}}).wait();
      if constexpr (!std::is_same_v<T, bfloat16>) {
        to += stride * stride;
        axpby(ctx_, {from, from}, view<T, 2>{to, {rows, columns}, {stride, 1}}, {2, 3}).wait();
      }
      to += stride * stride;
      copy(ctx_, from, view<T, 2>{to, {rows, columns}, {stride, 1}}).wait();
      to += stride * stride;  // two matrices: halves of from
      const std::int64_t half = rows / 2;
      transpose(ctx_, view<const T, 3>{x.data(), {2, half, columns}, {half * stride, stride, 1}},
                view<T, 3>{to, {2, columns, half}, {stride * stride, stride, 1}})
          .wait();
      return out.to_host();
    };
    EXPECT_EQ(run(streaming(64)), run(vectors(64)));
    EXPECT_EQ(run(streaming(32)), run(vectors(32)));
  };
  check(0.f, 37, 70, 96);
  check(0.f, 485, 231, 512);  // several tiles of a transpose
  check(bfloat16(0.f), 37, 70, 96);
  check(bfloat16(0.f), 231, 485, 512);
  if (has_fp64()) check(0.0, 37, 70, 96);
}

TEST_P(elementwise_test, dependencies_are_honoured) {
  sycl::queue out_of_order(GetParam());
  context ctx(out_of_order);
  const std::int64_t n = 1 << 20;
  tensor<float> x(queue_, {n}), y(queue_, {n});
  sycl::event last = out_of_order.fill(x.data(), 1.f, static_cast<std::size_t>(n));
  for (int round = 0; round < 4; ++round) {  // x -> 3 x, through y
    last = axpby(ctx, {x, x}, y, {.alpha = 1, .beta = 0}, {last});
    last = axpby(ctx, {y, x}, x, {.alpha = 3, .beta = 0}, {last});
    last = copy(ctx, x, y, {last});
    last = scale(ctx, y, x, 1, {last});
  }
  last.wait();
  EXPECT_EQ(x.to_host(), std::vector<float>(static_cast<std::size_t>(n), 81.f));
}

TEST_P(elementwise_test, bad_operands_are_named) {
  tensor<float> x(queue_, {2, 3}), y(queue_, {2, 3});
  std::string message = message_of<invalid_argument>([&] { axpby(ctx_, {x, contiguous(y.data(), 3, 2)}, y); });
  EXPECT_EQ(message,
            "axpby: dimension 1 of y (1, 3, 2) with strides (0, 2, 1) differs from dimension 1 of out (1, 2, 3) with "
            "strides (6, 3, 1)");
  message = message_of<invalid_argument>([&] { scale(ctx_, x, view<float, 2>{y.data(), {2, 3}, {0, 1}}, 2); });
  EXPECT_NE(message.find("scale: out (1, 2, 3) with strides (0, 0, 1) has strides that overlap"), std::string::npos)
      << message;
  message = message_of<invalid_argument>([&] { transpose(ctx_, x, y); });
  EXPECT_NE(message.find("transpose: out (1, 2, 3) with strides (6, 3, 1) should be (1, 3, 2)"), std::string::npos)
      << message;
  message = message_of<invalid_argument>([&] {
    apply(ctx_, view<const float, 1>{nullptr, {3}, {1}}, contiguous(y.data(), 3), unary_function::exp);
  });
  EXPECT_NE(message.find("apply: x (1, 1, 3) with strides (0, 0, 1) has a null pointer"), std::string::npos) << message;
}

}  // namespace
}  // namespace nullscope::test

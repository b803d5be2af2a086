#include <nullscope/core/tensor.hpp>
#include <nullscope/linalg/rows.hpp>

#include "tests/linalg/layout_test.hpp"
#include "tests/linalg/matrix_layout.hpp"

namespace nullscope::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// The mean of a row, and 1 / sqrt(variance + epsilon).
std::pair<long double, long double> moments(const std::vector<long double>& row, long double epsilon) {
  long double mean = 0, variance = 0;
  for (const long double x : row) mean += x / static_cast<long double>(row.size());
  for (const long double x : row) variance += (x - mean) * (x - mean) / static_cast<long double>(row.size());
  return {mean, 1 / std::sqrt(variance + epsilon)};
}

class rows_test : public layout_test {
 protected:
  /// Runs `check(matrices)` for all shapes, in the layouts of CPUs and GPUs. To compile less, double is tried in two of
  /// them.
  template <class T, class Check>
  void with_all_shapes(Check check) {
    const auto check_all = [&] {
      for (const layout& l : layouts) {
        SCOPED_TRACE(l.name());
        check(l);
      }
    };
    if (std::is_same_v<T, float>) {
      with_layouts({vectors(64), vectors(32), work_items(1), work_items(32), work_items(256)}, check_all);
    } else if (has_fp64()) {
      with_layouts({lane_layout::of(ctx_.device()), work_items(32)}, check_all);
    }
  }

  template <class T>
  void check_softmax(const layout& l) {
    std::vector<T> host = random_numbers<T>(l.size(), 7);
    for (T& number : host) number *= 20;
    std::vector<double> expected, expected_lse;
    l.for_each_row(host, [&](const std::vector<long double>& row) {
      long double sum = 0;
      const long double largest = *std::max_element(row.begin(), row.end());
      for (const long double x : row) sum += std::exp(x - largest);
      for (const long double x : row) expected.push_back(static_cast<double>(std::exp(x - largest) / sum));
      expected_lse.push_back(static_cast<double>(largest + std::log(sum)));
    });
    const T rubbish = 77;
    tensor<T> x(queue_, {l.size()}, host), y(queue_, {l.size()}, std::vector<T>(host.size(), rubbish));
    tensor<T> lse(queue_, {l.batch, l.rows});
    softmax(ctx_, l.of(x.data()), {l.of(y.data()), lse}).wait();
    const std::vector<T> got = l.elements(y.to_host(), rubbish);
    EXPECT_LT(scaled_residual(got, expected, 1), 4 + static_cast<double>(l.columns) / 1000);  // one lane adds most
    EXPECT_LT(scaled_residual(lse.to_host(), expected_lse, 1), 1);
    softmax(ctx_, l.of(x.data()), {l.of(x.data())}).wait();  // in place, without log_sum_exp: the same bits
    const std::vector<T> in_place = x.to_host();
    std::size_t k = 0;
    l.for_each([&](std::size_t at) { EXPECT_EQ(in_place[at], got[k++]); });
  }

  template <class T>
  void check_layer_norm(const layout& l, bool with_weights) {
    std::vector<T> host = random_numbers<T>(l.size(), 11);
    const T epsilon = T(1e-3);
    const std::vector<T> gamma = random_numbers<T>(2 * l.columns, 12), beta = random_numbers<T>(l.columns, 13);
    std::vector<double> expected, expected_mean, expected_inverse;
    l.for_each_row(host, [&](const std::vector<long double>& row) {
      const auto [mean, inverse_deviation] = moments(row, epsilon);
      for (std::size_t j = 0; j < row.size(); ++j) {
        const long double z = (row[j] - mean) * inverse_deviation;
        expected.push_back(static_cast<double>(with_weights ? z * gamma[2 * j] + beta[j] : z));
      }
      expected_mean.push_back(static_cast<double>(mean));
      expected_inverse.push_back(static_cast<double>(inverse_deviation));
    });
    const T rubbish = 77;
    tensor<T> x(queue_, {l.size()}, host), y(queue_, {l.size()}, std::vector<T>(host.size(), rubbish));
    tensor<T> weights(queue_, {2 * l.columns}, gamma), offsets(queue_, {l.columns}, beta);
    tensor<T> mean(queue_, {l.batch, l.rows}), inverse_deviation(queue_, {l.batch, l.rows});
    layer_norm_operands<T> operands{l.of(x.data())};
    layer_norm_results<T> results{l.of(y.data())};
    if (with_weights) {
      operands.gamma = {weights.data(), {l.columns}, {2}};
      operands.beta = offsets;
      results.mean = mean;
      results.inverse_deviation = inverse_deviation;
    }
    layer_norm(ctx_, operands, results, {.epsilon = epsilon}).wait();
    EXPECT_LT(scaled_residual(l.elements(y.to_host(), rubbish), expected, 1), 6);
    if (!with_weights) return;
    for (std::size_t i = 0; i < expected_mean.size(); ++i) {
      EXPECT_NEAR(mean.to_host()[i], expected_mean[i], 4 * std::numeric_limits<T>::epsilon());
    }
    EXPECT_LT(scaled_residual(inverse_deviation.to_host(), expected_inverse, 1), 8);
  }

  template <class T>
  void check_reduction(row_reduction kind, const layout& l) {
    const std::vector<T> host = random_numbers<T>(l.size(), 17);
    std::vector<double> expected, size;  // size: what the rounding errors are relative to
    l.for_each_row(host, [&](const std::vector<long double>& row) {
      long double sum = 0, sum_of_sizes = 0, squares = 0, largest = -infinity;
      for (const long double x : row) {
        sum += x;
        sum_of_sizes += std::abs(x);
        squares += x * x;
        largest = std::max(largest, x);
      }
      const bool is_sum = kind == row_reduction::sum, is_maximum = kind == row_reduction::maximum;
      const long double norm = kind == row_reduction::norm ? std::sqrt(squares) : squares;
      expected.push_back(static_cast<double>(is_sum ? sum : is_maximum ? largest : norm));
      size.push_back(static_cast<double>(is_sum ? sum_of_sizes : is_maximum ? 0 : norm));
    });
    tensor<T> x(queue_, {l.size()}, host), out(queue_, {l.batch, l.rows});
    row_reduce(ctx_, l.of(x.data()), out, kind).wait();
    const std::vector<T> got = out.to_host();
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_LE(std::abs(got[i] - expected[i]), 8 * size[i] * std::numeric_limits<T>::epsilon()) << "row " << i;
    }
  }

  /// layer_norm of two rows of numbers.
  std::vector<float> normalised(const std::vector<float>& numbers) {
    const auto columns = static_cast<std::int64_t>(numbers.size() / 2);
    tensor<float> x(queue_, {2, columns}, numbers), y(queue_, {2, columns});
    layer_norm(ctx_, {x}, {y}).wait();
    return y.to_host();
  }
};

INSTANTIATE_TEST_SUITE_P(devices, rows_test, testing::ValuesIn(devices()), device_name);

TEST_P(rows_test, softmax_agrees_with_f64) {
  with_all_shapes<float>([&](const layout& l) { check_softmax<float>(l); });
  with_all_shapes<double>([&](const layout& l) { check_softmax<double>(l); });
}

TEST_P(rows_test, softmax_of_masked_huge_and_bad_rows_is_defined) {
  constexpr auto inf = static_cast<float>(infinity);
  with_layouts({vectors(64), work_items(32)}, [&] {
    for (const std::int64_t columns : {5, 16, 70}) {
      const std::int64_t rows = 6;
      std::vector<float> host(static_cast<std::size_t>(rows * columns), 0.f);
      const auto row = [&](std::int64_t i) { return host.begin() + i * columns; };
      std::fill(row(0), row(1), -inf);                             // fully masked
      std::fill(row(1), row(2), -inf), *(row(1) + 3) = -5;         // one left
      std::fill(row(2), row(3), 3e38f);                            // huge and equal
      *(row(3) + columns - 1) = static_cast<float>(not_a_number);  // NaN, seen last
      *row(4) = inf;
      std::fill(row(5), row(6), -3e38f), *(row(5) + 1) = 3e38f;  // differences that overflow
      tensor<float> x(queue_, {rows, columns}, host), y(queue_, {rows, columns}), lse(queue_, {rows});
      softmax(ctx_, x, {y, lse}).wait();
      const std::vector<float> got = y.to_host(), got_lse = lse.to_host();
      for (std::int64_t j = 0; j < columns; ++j) {
        const auto at = [&](std::int64_t i) { return got[static_cast<std::size_t>(i * columns + j)]; };
        EXPECT_EQ(at(0), 0);
        EXPECT_EQ(at(1), j == 3 ? 1 : 0);
        EXPECT_FLOAT_EQ(at(2), 1.f / static_cast<float>(columns));
        EXPECT_TRUE(std::isnan(at(3)));
        EXPECT_TRUE(std::isnan(at(4)));
        EXPECT_EQ(at(5), j == 1 ? 1 : 0);
      }
      EXPECT_EQ(got_lse[0], -inf);
      EXPECT_EQ(got_lse[1], -5);
      EXPECT_EQ(got_lse[2], 3e38f);
      EXPECT_TRUE(std::isnan(got_lse[3]));
      EXPECT_EQ(got_lse[5], 3e38f);
    }
  });
}

TEST_P(rows_test, layer_norm_agrees_with_f64) {
  with_all_shapes<float>([&](const layout& l) { check_layer_norm<float>(l, l.rows % 2 == 0); });
  with_all_shapes<float>([&](const layout& l) { check_layer_norm<float>(l, l.rows % 2 == 1); });
  with_all_shapes<double>([&](const layout& l) { check_layer_norm<double>(l, true); });
}

TEST_P(rows_test, layer_norm_is_accurate_far_from_zero) {
  const std::int64_t columns = 3000;
  std::vector<float> host = random_numbers<float>(2 * columns, 3);
  for (float& x : host) x = 1e4f + x * 1.7320508f;  // mean 1e4, deviation 1
  host[0] = 1e4f - 20;                              // an outlier in front
  std::vector<double> expected;
  layout{1, 2, columns}.for_each_row(host, [&](const std::vector<long double>& row) {
    const auto [mean, inverse_deviation] = moments(row, 1e-5f);
    for (const long double x : row) expected.push_back(static_cast<double>((x - mean) * inverse_deviation));
  });
  with_layouts({vectors(64), work_items(32)}, [&] {
    const auto got = normalised(host);
    EXPECT_LT(scaled_residual(got, expected, 1), 4);
  });
}

TEST_P(rows_test, layer_norm_of_equal_and_bad_rows_is_defined) {
  constexpr auto inf = static_cast<float>(infinity);
  for (const float bad : {inf, -inf, static_cast<float>(not_a_number), 1e30f}) {  // 1e30: the square overflows
    std::vector<float> host(2 * 20, 3.f);
    host[20 + 13] = bad;
    const auto got = normalised(host);
    for (std::size_t j = 0; j < 20; ++j) {
      EXPECT_EQ(got[j], 0);
      EXPECT_TRUE(std::isnan(got[20 + j])) << bad;
    }
  }
}

TEST_P(rows_test, reductions_agree_with_f64) {
  with_all_shapes<float>([&](const layout& l) { check_reduction<float>(row_reduction::sum, l); });
  with_all_shapes<double>([&](const layout& l) { check_reduction<double>(row_reduction::norm, l); });
  with_layouts({vectors(64), work_items(32)}, [&] {
    for (const layout& l : layouts) {
      SCOPED_TRACE(l.name());
      for (const auto kind : {row_reduction::maximum, row_reduction::norm}) check_reduction<float>(kind, l);
    }
  });
  check_reduction<float>(row_reduction::sum_of_squares, {2, 3, 70});
}

TEST_P(rows_test, work_groups_with_many_rows_leave_none_out) {
  // On a CPU a group takes several rows at once, here of more than one matrix; the last group has fewer than the
  // others.
  const layout l{3, 20 * properties(GetParam()).compute_units + 3, 37, 1, 2, 5};
  with_layouts({vectors(64), vectors(32)}, [&] {
    for (const auto kind : {row_reduction::sum, row_reduction::maximum}) check_reduction<float>(kind, l);
    check_softmax<float>(l);
    check_layer_norm<float>(l, true);
  });
}

TEST_P(rows_test, reductions_go_down_columns_too) {
  with_layouts({vectors(64), vectors(32), work_items(1), work_items(32), work_items(256)}, [&] {
    for (const auto& extent : {std::pair{1, 1}, std::pair{5, 7}, std::pair{300, 16}, std::pair{3, 128},
                               std::pair{40, 300}, std::pair{0, 5}, std::pair{5, 0}}) {
      const int rows = extent.first, columns = extent.second;  // not every compiler lets a lambda have bindings
      const std::int64_t batch = 2, stride = columns + 3;
      const std::vector<float> host = random_numbers<float>(batch * rows * stride + 1, 19);
      tensor<float> x(queue_, {batch * rows * stride + 1}, host), out(queue_, {batch, columns});
      const view<const float, 3> matrices{x.data(), {batch, rows, columns}, {rows * stride, stride, 1}};
      const auto check = [&](row_reduction kind, double start, auto combine) {
        row_reduce(ctx_, transposed(matrices), out, kind).wait();
        const std::vector<float> got = out.to_host();
        for (std::int64_t b = 0; b < batch; ++b) {
          for (std::int64_t j = 0; j < columns; ++j) {
            double expected = start;
            for (std::int64_t i = 0; i < rows; ++i) {
              expected = combine(expected, host[static_cast<std::size_t>((b * rows + i) * stride + j)]);
            }
            EXPECT_NEAR(got[static_cast<std::size_t>(b * columns + j)], expected, 1e-6 * rows)
                << rows << " x " << columns;
          }
        }
      };
      check(row_reduction::sum, 0, [](double total, double x) { return total + x; });
      if (ctx_.layout() != vectors(64) && ctx_.layout() != work_items(256)) continue;
      check(row_reduction::sum_of_squares, 0, [](double total, double x) { return total + x * x; });
      if (rows > 0) check(row_reduction::maximum, -infinity, [](double total, double x) { return std::max(total, x); });
    }
  });
}

TEST_P(rows_test, reductions_of_extreme_and_bad_rows_are_defined) {
  constexpr auto inf = static_cast<float>(infinity);
  const auto reduce = [&](row_reduction kind, float element, float last) {
    std::vector<float> host(2 * 25, element);
    host[49] = last;
    tensor<float> x(queue_, {2, 25}, host), out(queue_, {2});
    row_reduce(ctx_, x, out, kind).wait();
    return out.to_host();
  };
  EXPECT_FLOAT_EQ(reduce(row_reduction::norm, 1e30f, 1e30f)[0], 5e30f);
  EXPECT_FLOAT_EQ(reduce(row_reduction::norm, 1e-30f, 1e-30f)[0], 5e-30f);
  EXPECT_FLOAT_EQ(reduce(row_reduction::norm, 1e-42f, 1e-42f)[1], 5 * 1e-42f);
  EXPECT_EQ(reduce(row_reduction::norm, 0, 0)[0], 0);
  EXPECT_EQ(reduce(row_reduction::norm, 1, -inf)[1], inf);
  EXPECT_EQ(reduce(row_reduction::sum_of_squares, 1e30f, 0)[0], inf);
  EXPECT_EQ(reduce(row_reduction::maximum, -inf, -inf)[0], -inf);
  for (const auto kind :
       {row_reduction::sum, row_reduction::maximum, row_reduction::sum_of_squares, row_reduction::norm}) {
    const std::vector<float> got = reduce(kind, 1, static_cast<float>(not_a_number));
    EXPECT_TRUE(std::isfinite(got[0]) && std::isnan(got[1]));
  }
  tensor<float> out(queue_, {3}, std::vector<float>(3, 7.f));
  row_reduce(ctx_, view<const float, 2>{out.data(), {3, 0}, {0, 1}}, out, row_reduction::sum).wait();
  EXPECT_EQ(out.to_host(), std::vector<float>(3, 0));
  row_reduce(ctx_, tensor<float>(queue_, {0, 5}), tensor<float>(queue_, {0}), row_reduction::sum).wait();  // no rows
}

TEST_P(rows_test, the_same_input_gives_the_same_bits) {
  const std::vector<float> host = random_numbers<float>(64 * 333, 5);
  tensor<float> x(queue_, {64, 333}, host), y(queue_, {64, 333}), first(queue_, {64, 333});
  with_layouts({vectors(64), work_items(256)}, [&] {
    for (int run = 0; run < 5; ++run) {
      tensor<float>& out = run == 0 ? first : y;
      softmax(ctx_, x, {out}).wait();
      layer_norm(ctx_, {out}, {out}).wait();
      if (run == 0) continue;
      EXPECT_EQ(y.to_host(), first.to_host());
    }
  });
}

TEST_P(rows_test, streaming_stores_write_the_same_bits) {
  if (!detail::has_cpu_layouts) GTEST_SKIP() << "this build has no layouts of CPUs";
  const std::int64_t rows = 37, columns = 70, stride = 80;  // rows begin at cache lines and end inside one
  tensor<float> x(queue_, {rows * stride}, random_numbers<float>(rows * stride, 6));
  const auto run = [&](const lane_layout& layout) {
    use_layout(layout);
    tensor<float> softmaxes(queue_, {rows * stride}, std::vector<float>(static_cast<std::size_t>(rows * stride), 77.f));
    tensor<float> norms(queue_, {rows * stride}, softmaxes.to_host());
    const view<const float, 2> from{x.data(), {rows, columns}, {stride, 1}};
    softmax(ctx_, from, {view<float, 2>{softmaxes.data(), {rows, columns}, {stride, 1}}}).wait();
    layer_norm(ctx_, {from}, {view<float, 2>{norms.data(), {rows, columns}, {stride, 1}}}).wait();
    return std::pair{softmaxes.to_host(), norms.to_host()};
  };
  EXPECT_EQ(run(streaming(64)), run(vectors(64)));
  EXPECT_EQ(run(streaming(32)), run(vectors(32)));
}

TEST_P(rows_test, dependencies_are_honoured) {
  sycl::queue out_of_order(GetParam());
  context ctx(out_of_order);
  const std::int64_t n = 1 << 20;
  tensor<float> x(queue_, {1, n}, sycl::usm::alloc::shared), y(queue_, {1, n}), sums(queue_, {1});
  sycl::event last = out_of_order.fill(x.data(), -3.f, static_cast<std::size_t>(n));
  for (int round = 0; round < 3; ++round) {  // only in this order is the sum of a softmax one
    last = softmax(ctx, x, {y}, {last});
    last = row_reduce(ctx, y, sums, row_reduction::sum, {last});
    last = layer_norm(ctx, {y}, {x}, {}, {last});
  }
  last.wait();
  EXPECT_NEAR(sums.to_host()[0], 1, 1e-5);
}

TEST_P(rows_test, bad_operands_are_named_and_nothing_is_written) {
  tensor<float> x(queue_, {2, 3, 4}), y(queue_, {2, 3, 4}), rows(queue_, {2, 3});
  const auto wrong = contiguous(y.data(), 2, 3, 3);
  std::string message = message_of<invalid_argument>([&] { softmax(ctx_, x, {wrong}); });
  EXPECT_EQ(message,
            "softmax: dimension 2 of x (2, 3, 4) with strides (12, 4, 1) differs from dimension 2 of y (2, 3, 3) with "
            "strides (9, 3, 1)");
  message = message_of<invalid_argument>([&] { softmax(ctx_, x, {y, contiguous(rows.data(), 3, 2)}); });
  EXPECT_NE(message.find("log_sum_exp (3, 2)"), std::string::npos) << message;
  message = message_of<invalid_argument>([&] { layer_norm(ctx_, {x}, {y}, {.epsilon = -1}); });
  EXPECT_NE(message.find("layer_norm: epsilon is -1"), std::string::npos) << message;
  message = message_of<invalid_argument>([&] { layer_norm(ctx_, {x, contiguous<const float>(rows.data(), 3)}, {y}); });
  EXPECT_NE(message.find("gamma (3)"), std::string::npos) << message;
  message = message_of<invalid_argument>([&] {
    row_reduce(ctx_, x, view<float, 2>{rows.data(), {2, 3}, {1, 1}}, row_reduction::sum);
  });
  EXPECT_NE(message.find("row_reduce: out (2, 3) with strides (1, 1) has strides that overlap"), std::string::npos)
      << message;
  message = message_of<invalid_argument>([&] {
    softmax(ctx_, view<const float, 2>{nullptr, {1, 1}, {1, 1}}, {contiguous(y.data(), 1, 1)});
  });
  EXPECT_NE(message.find("x (1, 1, 1) with strides (0, 1, 1) has a null pointer"), std::string::npos) << message;
}

}  // namespace
}  // namespace nullscope::test

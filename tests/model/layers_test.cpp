/// The operations of layers against plain loops in double, on every layout.
#include <nullscope/core/tensor.hpp>
#include <nullscope/model/layers.hpp>

#include <cmath>

#include "tests/core/every_layout.hpp"
#include "tests/core/residuals.hpp"

namespace nullscope {
namespace {

using test::random_numbers;

using host = std::vector<double>;

host to_double(const auto& x) { return host(x.begin(), x.end()); }

double value_of(activation function, double x) {
  switch (function) {
    case activation::none: return x;
    case activation::relu: return x > 0 ? x : 0;
    case activation::gelu: return x * 0.5 * std::erfc(-x / std::sqrt(2.0));
    case activation::gelu_tanh: return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case activation::tanh: return std::tanh(x);
  }
  return 0;
}

double derivative_of(activation function, double x) {
  switch (function) {
    case activation::none: return 1;
    case activation::relu: return x > 0 ? 1 : 0;
    case activation::gelu: return 0.5 * std::erfc(-x / std::sqrt(2.0)) + x * std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
    case activation::gelu_tanh: {
      const double c = std::sqrt(2 / M_PI), t = std::tanh(c * (x + 0.044715 * x * x * x));
      return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
    }
    case activation::tanh: return 1 - std::tanh(x) * std::tanh(x);
  }
  return 0;
}

constexpr activation functions[] = {activation::none, activation::relu, activation::gelu, activation::gelu_tanh,
                                    activation::tanh};

struct shape {
  std::int64_t rows, columns;
};
constexpr shape shapes[] = {{1, 1}, {3, 7}, {5, 33}, {40, 130}, {0, 5}, {2, 1500}};

class layers_test : public test::every_layout_test {};

TEST_P(layers_test, linear_and_its_gradients_agree_with_loops) {
  on_every_layout([]<class T>(context& ctx) {
    for (const activation function : functions) {
      const std::int64_t rows = 5, in = 11, out = 9;
      const auto x = random_numbers<T>(rows * in, 1), w = random_numbers<T>(out * in, 2), b = random_numbers<T>(out, 3),
                 d = random_numbers<T>(rows * out, 4);
      const tensor<T> x_(ctx, {rows, in}, x), w_(ctx, {out, in}, w), b_(ctx, {out}, b), d_(ctx, {rows, out}, d);
      tensor<T> y(ctx, {rows, out}), pre(ctx, {rows, out}), d_pre(ctx, {rows, out});
      linear(ctx, {x_, w_, b_}, {y, pre}, {function}).wait_and_throw();
      host expected_pre, expected_y, expected_d;
      for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t j = 0; j < out; ++j) {
          double sum = b[j];
          for (std::int64_t k = 0; k < in; ++k) sum += double(x[i * in + k]) * w[j * in + k];
          expected_pre.push_back(sum);
          expected_y.push_back(value_of(function, sum));
          expected_d.push_back(d[i * out + j] * derivative_of(function, sum));
        }
      }
      EXPECT_LT(scaled_residual(pre.to_host(), expected_pre, in), 10);
      EXPECT_LT(scaled_residual(y.to_host(), expected_y, in), 10);
      tensor<T> d_bias(ctx, {out}, b), d_w(ctx, {out, in}, w), d_x(ctx, {rows, in});
      activation_backward(ctx, {pre, d_}, {d_pre, d_bias}, {function}).wait_and_throw();
      EXPECT_LT(scaled_residual(d_pre.to_host(), expected_d, in), 10);
      linear_backward(ctx, {x_, w_, d_}, {d_x, d_w, {}}).wait_and_throw();
      host expected_bias = to_double(b), expected_w = to_double(w), expected_x(rows * in);
      for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t j = 0; j < out; ++j) {
          expected_bias[j] += expected_d[i * out + j];
          for (std::int64_t k = 0; k < in; ++k) {
            expected_w[j * in + k] += double(d[i * out + j]) * x[i * in + k];
            expected_x[i * in + k] += double(d[i * out + j]) * w[j * in + k];
          }
        }
      }
      EXPECT_LT(scaled_residual(d_bias.to_host(), expected_bias, in), 10);
      EXPECT_LT(scaled_residual(d_w.to_host(), expected_w, rows), 10);
      EXPECT_LT(scaled_residual(d_x.to_host(), expected_x, out), 10);
    }
  });
}

TEST_P(layers_test, linear_of_bfloat16_sums_in_float) {
  const std::int64_t rows = 7, in = 37, out = 21;
  const auto round = [](const std::vector<float>& numbers) {
    std::vector<bfloat16> result;
    for (const float number : numbers) result.emplace_back(number);
    return result;
  };
  const std::vector<bfloat16> x = round(random_numbers<float>(rows * in, 1)),
                              w = round(random_numbers<float>(out * in, 2));
  const std::vector<float> b = random_numbers<float>(out, 3);
  const tensor<bfloat16> x_(ctx_, {rows, in}, x), w_(ctx_, {out, in}, w);
  const tensor<float> b_(ctx_, {out}, b);
  tensor<float> y(ctx_, {rows, out}), pre(ctx_, {rows, out});
  linear(ctx_, linear_operands<bfloat16>{x_, w_, b_}, {y, pre}, {activation::relu}).wait_and_throw();
  host expected_pre, expected_y;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < out; ++j) {
      double sum = b[j];
      for (std::int64_t k = 0; k < in; ++k) sum += double(float(x[i * in + k])) * float(w[j * in + k]);
      expected_pre.push_back(sum);
      expected_y.push_back(std::max(sum, 0.0));
    }
  }
  EXPECT_LT(scaled_residual(pre.to_host(), expected_pre, in), 10);
  EXPECT_LT(scaled_residual(y.to_host(), expected_y, in), 10);
}

TEST_P(layers_test, layer_norm_of_a_sum_and_its_gradients_agree_with_loops) {
  on_every_layout([]<class T>(context& ctx) {
    for (const auto& [rows, columns] : shapes) {
      SCOPED_TRACE(testing::Message() << rows << " x " << columns);
      const std::int64_t size = rows * columns;
      const double epsilon = 1e-3;
      const auto x = random_numbers<T>(size, 1), r = random_numbers<T>(size, 2), g = random_numbers<T>(columns, 3),
                 b = random_numbers<T>(columns, 4), d = random_numbers<T>(size, 5), e = random_numbers<T>(size, 6),
                 c = random_numbers<T>(columns, 7);
      const tensor<T> c_(ctx, {columns}, c), x_(ctx, {rows, columns}, x), r_(ctx, {rows, columns}, r),
          g_(ctx, {columns}, g), b_(ctx, {columns}, b), d_(ctx, {rows, columns}, d), e_(ctx, {rows, columns}, e);
      tensor<T> y(ctx, {rows, columns}), sum(ctx, {rows, columns}), mean(ctx, {rows}), inverse(ctx, {rows});
      layer_norm_residual(ctx, {x_, r_, g_, b_, c_}, {y, sum, mean, inverse}, {epsilon}).wait_and_throw();
      tensor<T> d_sum(ctx, {rows, columns}), d_g(ctx, {columns}, g), d_b(ctx, {columns}, b), d_c(ctx, {columns});
      layer_norm_backward(ctx, {sum, g_, mean, inverse, d_, e_}, {d_sum, d_g, d_b, {}}).wait_and_throw();
      layer_norm_backward(ctx, {sum, g_, mean, inverse, d_, e_}, {d_sum, {}, {}, d_c}, {.accumulate = false})
          .wait_and_throw();
      host expected_y(size), expected_d(size), expected_g = to_double(g), expected_b = to_double(b),
                                               expected_c(columns);
      for (std::int64_t i = 0; i < rows; ++i) {
        double m = 0, v = 0;
        const auto s = [&](std::int64_t j) { return double(x[i * columns + j]) + c[j] + r[i * columns + j]; };
        for (std::int64_t j = 0; j < columns; ++j) m += s(j) / columns;
        for (std::int64_t j = 0; j < columns; ++j) v += (s(j) - m) * (s(j) - m) / columns;
        const double scale = 1 / std::sqrt(v + epsilon);
        double mg = 0, mgz = 0;
        for (std::int64_t j = 0; j < columns; ++j) {
          const double z = (s(j) - m) * scale, dg = double(d[i * columns + j]) * g[j];
          expected_y[i * columns + j] = z * g[j] + b[j];
          mg += dg / columns;
          mgz += dg * z / columns;
        }
        for (std::int64_t j = 0; j < columns; ++j) {
          const double z = (s(j) - m) * scale, dy = d[i * columns + j];
          const double ds = scale * (dy * g[j] - mg - z * mgz) + e[i * columns + j];
          expected_d[i * columns + j] = ds;
          expected_g[j] += dy * z;
          expected_b[j] += dy;
          expected_c[j] += ds;
        }
      }
      EXPECT_LT(scaled_residual(y.to_host(), expected_y, 10), 10);
      EXPECT_LT(scaled_residual(d_sum.to_host(), expected_d, 10), 10);
      EXPECT_LT(scaled_residual(d_g.to_host(), expected_g, 10), 10);
      EXPECT_LT(scaled_residual(d_b.to_host(), expected_b, 10), 10);
      if (rows > 0) {
        EXPECT_LT(scaled_residual(d_c.to_host(), expected_c, 10 + static_cast<double>(rows)), 10);
      }
    }
  });
}

TEST_P(layers_test, a_layer_norm_prepares_the_bias_of_the_product_after_it) {
  on_every_layout([]<class T>(context& ctx) {
    for (const auto& [rows, columns] : shapes) {
      SCOPED_TRACE(testing::Message() << rows << " x " << columns);
      const std::int64_t out = 37;
      const tensor<T> x(ctx, {rows, columns}, random_numbers<T>(rows * columns, 1)),
          g(ctx, {columns}, random_numbers<T>(columns, 2)), b(ctx, {out}, random_numbers<T>(out, 3)),
          w(ctx, {out, columns}, random_numbers<T>(out * columns, 4));
      tensor<T> y(ctx, {rows, columns}), product(ctx, {rows, out}), pre(ctx, {rows, out}), expected(ctx, {rows, out});
      layer_norm_residual(ctx, {x, {}, g, {}, {}, b}, {y, {}, {}, {}, product}).wait_and_throw();
      const std::vector<T> bias = b.to_host(), filled = product.to_host();
      for (std::size_t i = 0; i < filled.size(); ++i) ASSERT_EQ(filled[i], bias[i % bias.size()]) << i;
      linear(ctx, {y, w}, {product, pre}, {activation::tanh, true}).wait_and_throw();
      linear(ctx, {y, w, b}, {expected}, {activation::tanh}).wait_and_throw();
      EXPECT_LT(scaled_residual(product.to_host(), to_double(expected.to_host()), static_cast<double>(columns)), 10);
    }
  });
}

TEST_P(layers_test, cross_entropy_agrees_with_loops) {
  on_every_layout([]<class T>(context& ctx) {
    for (const std::int64_t classes : {1, 2, 5, 300}) {
      const std::int64_t rows = 130;
      auto x = random_numbers<T>(rows * classes, classes);
      for (T& value : x) value *= 40;
      std::vector<std::int32_t> labels;
      for (std::int64_t i = 0; i < rows; ++i) labels.push_back(i % 7 == 3 ? -1 : static_cast<int>(i * 3 % classes));
      const tensor<T> x_(ctx, {rows, classes}, x);
      const tensor<std::int32_t> labels_(ctx, {rows}, labels);
      tensor<T> loss(ctx, {1}), d(ctx, {rows, classes});
      tensor<std::int64_t> correct(ctx, {1});
      tensor<std::int32_t> prediction(ctx, {rows});
      cross_entropy(ctx, {x_, labels_}, {.loss = loss, .correct = correct, .d_logits = d, .prediction = prediction})
          .wait_and_throw();
      double total = 0, count = 0;
      std::int64_t right = 0;
      std::vector<std::int32_t> expected_prediction;
      host expected(rows * classes);
      for (const std::int32_t label : labels) count += label >= 0;
      for (std::int64_t i = 0; i < rows; ++i) {
        const T* row = x.data() + i * classes;
        const auto best = static_cast<std::int32_t>(std::max_element(row, row + classes) - row);
        expected_prediction.push_back(best);
        if (labels[i] < 0) continue;
        double sum = 0;
        for (std::int64_t c = 0; c < classes; ++c) sum += std::exp(double(row[c]) - row[best]);
        total += std::log(sum) + row[best] - row[labels[i]];
        right += best == labels[i];
        for (std::int64_t c = 0; c < classes; ++c) {
          expected[i * classes + c] = (std::exp(double(row[c]) - row[best]) / sum - (c == labels[i])) / count;
        }
      }
      EXPECT_EQ(prediction.to_host(), expected_prediction);
      EXPECT_EQ(correct.to_host()[0], right);
      EXPECT_LT(scaled_residual(loss.to_host(), {total / count}, 40), 10);
      EXPECT_LT(scaled_residual(d.to_host(), expected, 40), 10);
    }
  });
}

TEST_P(layers_test, embeddings_add_up_rows_and_give_gradients_back) {
  on_every_layout([]<class T>(context& ctx) {
    const std::int64_t batch = 3, tokens = 5, d = 19, vocabulary = 13, first = 2;
    const std::vector<std::int32_t> ids{1, 1, 12, 0, 7, 7, 7, 3, 2, 1, 5, 0, 0, 0, 0},
        parts{0, 1, 1, 0, 0, 1, 0, 1, 0, 1, 0, 0, 1, 0, 0};
    const std::vector<std::int64_t> lengths{5, 4, 1};
    const auto token = random_numbers<T>(vocabulary * d, 1), position = random_numbers<T>((tokens + first) * d, 2),
               segment = random_numbers<T>(2 * d, 3), g = random_numbers<T>(batch * tokens * d, 4);
    const tensor<std::int32_t> ids_(ctx, {batch, tokens}, ids), parts_(ctx, {batch, tokens}, parts);
    const tensor<std::int64_t> lengths_(ctx, {batch}, lengths);
    const tensor<T> token_(ctx, {vocabulary, d}, token), position_(ctx, {tokens + first, d}, position),
        segment_(ctx, {2, d}, segment), g_(ctx, {batch * tokens, d}, g);
    tensor<T> x(ctx, {batch * tokens, d}), d_token(ctx, {vocabulary, d}, token), d_position(ctx, {tokens + first, d}),
        d_segment(ctx, {2, d}, segment);
    embedding(ctx, {ids_, token_, position_, segment_, parts_}, x, {first}).wait_and_throw();
    embedding_backward(ctx, {ids_, g_, parts_, lengths_}, {d_token, {}, d_segment}, {first}).wait_and_throw();
    embedding_backward(ctx, {ids_, g_, parts_, lengths_}, {{}, d_position, {}}, {first, false}).wait_and_throw();
    host expected, t = to_double(token), p((tokens + first) * d), s = to_double(segment);
    for (std::int64_t row = 0; row < batch * tokens; ++row) {
      const std::int64_t i = row % tokens, id = ids[row], part = parts[row];
      for (std::int64_t c = 0; c < d; ++c) {
        expected.push_back(double(token[id * d + c]) + position[(i + first) * d + c] + segment[part * d + c]);
        if (i >= lengths[row / tokens]) continue;
        t[id * d + c] += g[row * d + c];
        p[(i + first) * d + c] += g[row * d + c];
        s[part * d + c] += g[row * d + c];
      }
    }
    EXPECT_LT(scaled_residual(x.to_host(), expected, 3), 10);
    EXPECT_LT(scaled_residual(d_token.to_host(), t, 8), 10);
    EXPECT_LT(scaled_residual(d_position.to_host(), p, 8), 10);
    EXPECT_LT(scaled_residual(d_segment.to_host(), s, 8), 10);
  });
}

TEST_P(layers_test, dropout_keeps_the_right_share_and_repeats_itself) {
  on_every_layout([]<class T>(context& ctx) {
    const std::int64_t rows = 50, columns = 401;
    const std::vector<T> ones(rows * columns, T(1));
    const tensor<T> x(ctx, {rows, columns}, ones);
    tensor<T> y(ctx, {rows, columns}), again(ctx, {rows, columns});
    const dropout_options options{.probability = 0.3, .stream = {5, 6}};
    dropout(ctx, x, y, options).wait_and_throw();
    dropout(ctx, x, again, options).wait_and_throw();
    const std::vector<T> got = y.to_host();
    EXPECT_EQ(got, again.to_host());
    double kept = 0;
    for (const T value : got) {
      EXPECT_TRUE(value == T(0) || std::abs(value - T(1 / 0.7)) < 1e-6);
      kept += value != T(0);
    }
    const double count = static_cast<double>(got.size());
    EXPECT_NEAR(kept / count, 0.7, 5 * std::sqrt(0.21 / count));
  });
}

TEST_P(layers_test, softmax_backward_agrees_with_loops) {
  on_every_layout([]<class T>(context& ctx) {
    const std::int64_t rows = 4, columns = 37;
    const auto y = random_numbers<T>(rows * columns, 1), g = random_numbers<T>(rows * columns, 2);
    const tensor<T> y_(ctx, {rows, columns}, y), g_(ctx, {rows, columns}, g);
    tensor<T> d(ctx, {rows, columns});
    softmax_backward(ctx, {y_, g_}, d).wait_and_throw();
    host expected;
    for (std::int64_t i = 0; i < rows; ++i) {
      double sum = 0;
      for (std::int64_t j = 0; j < columns; ++j) sum += double(y[i * columns + j]) * g[i * columns + j];
      for (std::int64_t j = 0; j < columns; ++j) expected.push_back(y[i * columns + j] * (g[i * columns + j] - sum));
    }
    EXPECT_LT(scaled_residual(d.to_host(), expected, columns), 10);
  });
}

INSTANTIATE_TEST_SUITE_P(devices, layers_test, testing::ValuesIn(devices()), test::device_name);

}  // namespace
}  // namespace nullscope

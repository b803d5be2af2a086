#include <nullscope/attention/attention.hpp>
#include <nullscope/core/tensor.hpp>

#include "tests/attention/attention_layouts.hpp"

namespace nullscope::test {
namespace {

struct weights_case {
  std::int64_t batch, heads, queries, keys, dk;
  bool causal = false;
  std::vector<std::int64_t> lengths = {};
  double scale = 0;
};

/// A (batch, heads, queries, keys) and what belongs to it, in double.
struct exact_weights {
  std::vector<double> weight, log_sum_exp, received;
};

template <class In>
exact_weights exact(const weights_case& c, const std::vector<In>& q, const std::vector<In>& k) {
  exact_weights result;
  result.received.resize(static_cast<std::size_t>(c.batch * c.heads * c.keys));
  const double scale = c.scale != 0 ? c.scale : 1 / std::sqrt(static_cast<double>(c.dk));
  for (std::int64_t row = 0; row < c.batch * c.heads * c.queries; ++row) {
    const std::int64_t matrix = row / c.queries;
    std::int64_t visible = c.lengths.empty() ? c.keys : c.lengths[static_cast<std::size_t>(matrix / c.heads)];
    if (c.causal) visible = std::min(visible, row % c.queries + c.keys - c.queries + 1);
    std::vector<double> weight;
    double sum = 0;
    for (std::int64_t j = 0; j < visible; ++j) {
      double score = 0;
      for (std::int64_t d = 0; d < c.dk; ++d) {
        score += static_cast<double>(static_cast<float>(q[static_cast<std::size_t>(row * c.dk + d)])) *
                 static_cast<double>(static_cast<float>(k[static_cast<std::size_t>((matrix * c.keys + j) * c.dk + d)]));
      }
      weight.push_back(std::exp(scale * score));
      sum += weight.back();
    }
    weight.resize(static_cast<std::size_t>(c.keys));
    for (std::int64_t j = 0; j < c.keys; ++j) {
      const double w = j < visible ? weight[static_cast<std::size_t>(j)] / sum : 0;
      result.weight.push_back(w);
      result.received[static_cast<std::size_t>(matrix * c.keys + j)] += w;
    }
    result.log_sum_exp.push_back(std::log(sum));
  }
  return result;
}

template <class To>
std::vector<To> converted(const std::vector<double>& from) {
  return {from.begin(), from.end()};
}

/// Numbers that are exact in float, so that one reference serves every type.
template <class In>
std::vector<In> inputs(std::int64_t count, std::uint64_t seed) {
  std::vector<In> result;
  for (const float x : random_numbers<float>(count, seed)) result.push_back(static_cast<In>(x));
  return result;
}

class attention_weights_test : public testing::TestWithParam<attention_layout> {
 protected:
  /// Operands of a case on the device.
  template <class In, class T>
  struct operands {
    operands(sycl::queue& queue, const weights_case& c)
        : host_q(inputs<In>(c.batch * c.heads * c.queries * c.dk, 1)),
          host_k(inputs<In>(c.batch * c.heads * c.keys * c.dk, 2)),
          reference(exact(c, host_q, host_k)),
          q(queue, {c.batch, c.heads, c.queries, c.dk}, host_q),
          k(queue, {c.batch, c.heads, c.keys, c.dk}, host_k),
          log_sum_exp(queue, {c.batch, c.heads, c.queries}, converted<T>(reference.log_sum_exp)),
          lengths(queue, {static_cast<std::int64_t>(c.lengths.size())}, c.lengths) {
      options.scale = c.scale;
      options.causal = c.causal;
      if (!c.lengths.empty()) options.lengths = lengths;
    }

    std::vector<In> host_q, host_k;
    exact_weights reference;
    tensor<In> q, k;
    tensor<T> log_sum_exp;
    tensor<std::int64_t> lengths;
    attention_options options;
  };

  /// The rows `first_query` .. and columns `first_key` .. of A; `padding` elements stand between the rows of out.
  template <class T>
  void check_tile(const weights_case& c, std::int64_t first_query, std::int64_t rows, std::int64_t first_key,
                  std::int64_t columns, std::int64_t padding = 0) {
    SCOPED_TRACE(testing::Message() << "queries " << c.queries << " keys " << c.keys << " from " << first_query << ", "
                                    << first_key << " size " << rows << " x " << columns << " padding " << padding);
    operands<T, T> data(queue_, c);
    const std::int64_t row_stride = columns + padding, matrix_stride = rows * row_stride + padding;
    const std::int64_t matrices = c.batch * c.heads;
    tensor<T> out(queue_, {matrices * matrix_stride},
                  std::vector<T>(static_cast<std::size_t>(matrices * matrix_stride), T(-77)));
    // With padding the heads are outermost, so that batch and heads do not make one dimension.
    const std::int64_t batch_stride = padding > 0 ? matrix_stride : c.heads * matrix_stride;
    const std::int64_t head_stride = padding > 0 ? c.batch * matrix_stride : matrix_stride;
    const view<T, 4> tile{out.data(), {c.batch, c.heads, rows, columns}, {batch_stride, head_stride, row_stride, 1}};
    attention_weights(ctx_, {data.q, data.k, data.log_sum_exp}, tile,
                      {.attention = data.options, .first_query = first_query, .first_key = first_key})
        .wait_and_throw();
    const std::vector<T> got = out.to_host();
    std::vector<T> inside;
    std::vector<double> expected;
    std::size_t outside = got.size();
    for (std::int64_t matrix = 0; matrix < matrices; ++matrix) {
      for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t j = 0; j < columns; ++j, --outside) {
          const std::int64_t at = matrix / c.heads * batch_stride + matrix % c.heads * head_stride + i * row_stride + j;
          inside.push_back(got[static_cast<std::size_t>(at)]);
          expected.push_back(
              data.reference
                  .weight[static_cast<std::size_t>((matrix * c.queries + first_query + i) * c.keys + first_key + j)]);
          ASSERT_EQ(expected.back() == 0, inside.back() == T(0));
        }
      }
    }
    EXPECT_LT(scaled_residual<T>(inside, expected, 1), 10);
    EXPECT_EQ(std::count(got.begin(), got.end(), T(-77)), static_cast<std::ptrdiff_t>(outside));
  }

  template <class In, class T>
  std::vector<T> received(operands<In, T>& data, const weights_case& c) {
    const std::vector<T> rubbish(static_cast<std::size_t>(c.batch * c.heads * c.keys), T(-77));
    tensor<T> out(queue_, {c.batch, c.heads, c.keys}, rubbish);
    attention_received(ctx_, {data.q, data.k, data.log_sum_exp}, out, data.options).wait_and_throw();
    return out.to_host();
  }

  template <class In, class T>
  void check_received(const weights_case& c) {
    SCOPED_TRACE(testing::Message() << "queries " << c.queries << " keys " << c.keys << " dk " << c.dk);
    operands<In, T> data(queue_, c);
    EXPECT_LT(scaled_residual<T>(received(data, c), data.reference.received, 1), 10);
  }

  sycl::queue queue_{std::get<0>(GetParam()), sycl::property::queue::in_order{}};
  context ctx_{queue_, layout_of(GetParam())};
};

INSTANTIATE_TEST_SUITE_P(devices, attention_weights_test, attention_layouts(), attention_layout_name);

TEST_P(attention_weights_test, all_of_a_agrees_with_f64) {
  for (const std::int64_t s : {1, 13, 33, 100}) check_tile<float>({2, 3, s, s, 17}, 0, s, 0, s);
  check_tile<float>({2, 2, 40, 300, 64}, 0, 40, 0, 300);
  check_tile<double>({1, 2, 31, 20, 5}, 0, 31, 0, 20);
  check_tile<float>({1, 1, 7, 9, 4, false, {}, 0.3}, 0, 7, 0, 9);
}

TEST_P(attention_weights_test, masks_give_zeros) {
  check_tile<float>({2, 2, 70, 70, 16, true}, 0, 70, 0, 70);
  check_tile<float>({1, 2, 20, 50, 16, true}, 0, 20, 0, 50);
  check_tile<float>({1, 2, 50, 20, 16, true}, 0, 50, 0, 20);  // the first 30 queries see nothing
  check_tile<float>({4, 1, 30, 90, 8, false, {90, 1, 59, 0}}, 0, 30, 0, 90);
  check_tile<double>({2, 1, 65, 65, 8, true, {65, 40}}, 0, 65, 0, 65);
}

TEST_P(attention_weights_test, a_tile_is_a_part_of_a_wherever_it_is_written) {
  const weights_case c{2, 3, 60, 75, 16, true, {75, 50}};
  check_tile<float>(c, 10, 20, 0, 75, 3);
  check_tile<float>(c, 59, 1, 74, 1, 1);
  check_tile<float>(c, 0, 60, 40, 17, 5);
  check_tile<float>(c, 60, 0, 75, 0);
  check_tile<double>(c, 31, 7, 33, 20, 2);
}

TEST_P(attention_weights_test, rows_sum_to_one_with_what_attention_gave) {
  constexpr std::int64_t heads = 2, s = 130, d = 24;
  const std::vector<float> numbers = random_numbers<float>(heads * s * d, 1);
  const tensor<float> q(queue_, {1, heads, s, d}, numbers);
  tensor<float> out(queue_, {1, heads, s, d}), log_sum_exp(queue_, {1, heads, s}), weights(queue_, {1, heads, s, s});
  const attention_options options{.scale = 3};
  attention(ctx_, {q, q, q}, {.out = out, .log_sum_exp = log_sum_exp}, options);
  attention_weights(ctx_, {q, q, log_sum_exp}, weights, {.attention = options}).wait_and_throw();
  const std::vector<float> weight = weights.to_host();
  for (std::int64_t row = 0; row < heads * s; ++row) {
    double sum = 0, size = 0;  // of the weights; of the terms of the query's score with itself
    for (std::int64_t j = 0; j < s; ++j) sum += static_cast<double>(weight[static_cast<std::size_t>(row * s + j)]);
    for (std::int64_t i = 0; i < d; ++i) {
      const double x = numbers[static_cast<std::size_t>(row * d + i)];
      size += options.scale * x * x;
    }
    // A weight's relative error is the absolute error of its exponent.
    ASSERT_LT(std::abs(sum - 1) / (size * std::numeric_limits<float>::epsilon()), 10) << sum << " for row " << row;
  }
}

/// Of scores of 1e6 to 1e7 the rounding of log_sum_exp is a number of any size as an exponent.
TEST_P(attention_weights_test, no_weight_exceeds_one_however_large_scores_are) {
  constexpr std::int64_t queries = 60, keys = 1, d = 12;
  std::vector<float> large = random_numbers<float>(queries * d, 1);
  for (float& x : large) x *= 1e7f;
  const tensor<float> q(queue_, {1, 1, queries, d}, large);
  const tensor<float> k(queue_, {1, 1, keys, d}, random_numbers<float>(keys * d, 2));
  tensor<float> out(queue_, {1, 1, queries, d}), log_sum_exp(queue_, {1, 1, queries}),
      weights(queue_, {1, 1, queries, keys}), received(queue_, {1, 1, keys});
  attention(ctx_, {q, k, k}, {.out = out, .log_sum_exp = log_sum_exp});
  attention_weights(ctx_, {q, k, log_sum_exp}, weights);
  attention_received(ctx_, {q, k, log_sum_exp}, received).wait_and_throw();
  for (const float weight : weights.to_host()) ASSERT_LE(weight, 1);
  for (const float sum : received.to_host()) ASSERT_LE(sum, static_cast<float>(queries));
}

TEST_P(attention_weights_test, received_agrees_with_f64) {
  for (const std::int64_t s : {1, 2, 13, 33, 100, 257}) check_received<float, float>({1, 2, s, s, 17});
  check_received<float, float>({2, 3, 40, 300, 64});
  check_received<float, float>({1, 1, 1000, 40, 3});
  check_received<double, double>({2, 1, 37, 130, 20});
  check_received<float, float>({1, 1, 7, 9, 4, false, {}, 0.3});
  check_received<float, float>({1, 1, 20, 20, 512});
}

TEST_P(attention_weights_test, received_takes_bfloat16) {
  const weights_case c{1, 2, 67, 70, 20};
  operands<bfloat16, float> data(queue_, c);
  EXPECT_LT(scaled_residual<float>(received(data, c), data.reference.received, 1), 10);
}

TEST_P(attention_weights_test, received_honours_masks) {
  check_received<float, float>({2, 2, 70, 70, 16, true});
  check_received<float, float>({1, 2, 20, 50, 16, true});
  check_received<float, float>({1, 2, 50, 20, 16, true});
  check_received<float, float>({4, 1, 30, 90, 8, false, {90, 1, 59, 0}});
  check_received<double, double>({2, 1, 65, 65, 8, true, {65, 40}});
}

TEST_P(attention_weights_test, received_is_zero_without_queries_and_the_same_in_every_run) {
  const weights_case no_queries{1, 1, 0, 5, 3};
  operands<float, float> none(queue_, no_queries);
  EXPECT_EQ(received(none, no_queries), std::vector<float>(5));
  const weights_case no_keys{1, 1, 5, 0, 3};
  operands<float, float> empty(queue_, no_keys);
  EXPECT_EQ(received(empty, no_keys), std::vector<float>());
  const weights_case c{1, 2, 500, 333, 8};
  operands<float, float> data(queue_, c);
  const std::vector<float> first = received(data, c);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(received(data, c), first);
}

TEST_P(attention_weights_test, nan_in_a_key_stays_with_it) {
  const weights_case c{1, 1, 5, 40, 3};
  operands<float, float> data(queue_, c);
  data.host_k[7 * 3] = std::numeric_limits<float>::quiet_NaN();
  data.k = tensor<float>(queue_, {1, 1, 40, 3}, data.host_k);
  const std::vector<float> got = received(data, c);
  for (std::size_t j = 0; j < got.size(); ++j) EXPECT_EQ(std::isnan(got[j]), j == 7) << j;
}

TEST_P(attention_weights_test, refuses_what_does_not_fit) {
  tensor<float> q(queue_, {1, 2, 4, 8}), k(queue_, {1, 2, 6, 8}), sums(queue_, {1, 2, 4}), few(queue_, {1, 2, 3});
  tensor<float> out(queue_, {1, 2, 4, 5}), received(queue_, {1, 2, 6});
  const auto weights = [&](view<const float, 3> log_sum_exp, std::int64_t first_query, std::int64_t first_key) {
    return message_of<invalid_argument>([&] {
      attention_weights(ctx_, {q, k, log_sum_exp}, out, {.first_query = first_query, .first_key = first_key});
    });
  };
  EXPECT_EQ(weights(sums, 0, 2),
            "attention_weights: out (1, 2, 4, 5) with strides (40, 20, 5, 1) from query 0 and key 2 on goes beyond 4 "
            "queries and 6 keys");
  EXPECT_NE(weights(sums, -1, 0).find("from query -1"), std::string::npos);
  EXPECT_NE(weights(few, 0, 0).find("dimension 2 of log_sum_exp (1, 2, 3)"), std::string::npos);
  const auto message = [&](view<float, 3> result) {
    return message_of<invalid_argument>([&] { attention_received(ctx_, {q, k, sums}, result); });
  };
  EXPECT_NE(message(few).find("dimension 2 of k (1, 2, 6, 8)"), std::string::npos);
  tensor<std::byte> small(queue_, {64});
  ctx_.use_workspace(small.span());
  EXPECT_NE(message(received).find("attention_received: the workspace is too small"), std::string::npos);
}

}  // namespace
}  // namespace nullscope::test

/// The bias of the scores in everything that computes with attention, against plain loops in double.
#include <nullscope/attention/attention.hpp>
#include <nullscope/attention/effective_attention.hpp>

#include "tests/attention/attention_layouts.hpp"

namespace nullscope::test {
namespace {

struct bias_case {
  std::int64_t batch, heads, queries, keys, dk, dv;
  std::int64_t stride[4] = {};       // of the bias
  std::int64_t first = 0, size = 0;  // of (0, 0, 0, 0) in its memory, and the size of that
  bool causal = false, padded = false;
  double scale = 0, magnitude = 1;  // of the bias
};

bias_case dense(bias_case c) {
  const std::int64_t matrix = c.queries * c.keys;
  std::copy_n(std::array{c.heads * matrix, matrix, c.keys, std::int64_t{1}}.data(), 4, c.stride);
  c.first = 0, c.size = c.batch * c.heads * matrix;
  return c;
}

/// Keys first in memory, and every second number unused.
bias_case strided(bias_case c) {
  const std::int64_t matrix = 2 * c.queries * c.keys;
  std::copy_n(std::array{c.heads * matrix, matrix, std::int64_t{2}, 2 * c.queries}.data(), 4, c.stride);
  c.first = 0, c.size = c.batch * c.heads * matrix;
  return c;
}

/// A table per head over key - query, the same for all sequences.
bias_case diagonals(bias_case c) {
  const std::int64_t table = c.queries + c.keys - 1;
  std::copy_n(std::array{std::int64_t{0}, table, std::int64_t{-1}, std::int64_t{1}}.data(), 4, c.stride);
  c.first = c.queries - 1, c.size = c.heads * table;
  return c;
}

/// The same with the table back to front: over query - key.
bias_case antidiagonals(bias_case c) {
  c = diagonals(c);
  std::swap(c.stride[2], c.stride[3]);
  c.first = c.keys - 1;
  return c;
}

/// One number per sequence and key, for all heads and queries.
bias_case columns(bias_case c) {
  std::copy_n(std::array{c.keys, std::int64_t{0}, std::int64_t{0}, std::int64_t{1}}.data(), 4, c.stride);
  c.first = 0, c.size = c.batch * c.keys;
  return c;
}

std::vector<bias_case> cases() {
  std::vector<bias_case> all;
  bias_case small{1, 1, 1, 1, 1, 1}, odd{2, 3, 37, 41, 7, 5}, causal{2, 2, 70, 70, 16, 9},
      long_rows{1, 2, 150, 290, 8, 8};
  causal.causal = true;
  for (const auto kind : {dense, strided, diagonals, antidiagonals, columns}) {
    for (const bias_case& c : {small, odd, causal, long_rows}) all.push_back(kind(c));
  }
  bias_case padded = diagonals(odd), negative = dense(odd), large = dense(odd);
  padded.padded = true;
  negative.scale = -0.7;
  large.magnitude = 300;
  all.insert(all.end(), {padded, negative, large});
  return all;
}

/// Everything that follows from q, k, v, bias and d_out, in double.
struct reference {
  std::vector<double> out, log_sum_exp, weights, received, d_q, d_k, d_v, d_bias;
};

template <class T>
class bias_data {
 public:
  explicit bias_data(const bias_case& c)
      : c_(c),
        q(random_numbers<T>(matrices() * c.queries * c.dk, 1)),
        k(random_numbers<T>(matrices() * c.keys * c.dk, 2)),
        v(random_numbers<T>(matrices() * c.keys * c.dv, 3)),
        d_out(random_numbers<T>(matrices() * c.queries * c.dv, 4)),
        bias(random_numbers<T>(c.size, 5)) {
    for (T& x : bias) x = static_cast<T>(x * c.magnitude);
    for (std::int64_t b = 0; b < c.batch; ++b)
      lengths.push_back(c.padded ? std::max<std::int64_t>(c.keys - 5 * b - 2, 1) : c.keys);
  }

  std::int64_t matrices() const { return c_.batch * c_.heads; }
  std::size_t bias_place(std::int64_t matrix, std::int64_t i, std::int64_t j) const {
    return static_cast<std::size_t>(c_.first + matrix / c_.heads * c_.stride[0] + matrix % c_.heads * c_.stride[1] +
                                    i * c_.stride[2] + j * c_.stride[3]);
  }

  reference compute() const {
    reference r;
    const std::int64_t queries = c_.queries, keys = c_.keys;
    r.out.resize(d_out.size()), r.weights.resize(static_cast<std::size_t>(matrices() * queries * keys));
    r.received.resize(static_cast<std::size_t>(matrices() * keys));
    r.d_q.resize(q.size()), r.d_k.resize(k.size()), r.d_v.resize(v.size()), r.d_bias.resize(bias.size());
    const double scale = c_.scale != 0 ? c_.scale : 1 / std::sqrt(static_cast<double>(c_.dk));
    const auto dot = [](const std::vector<T>& a, std::int64_t i, const std::vector<T>& b, std::int64_t j,
                        std::int64_t d) {
      double sum = 0;
      for (std::int64_t e = 0; e < d; ++e) sum += double(a[at(i * d + e)]) * double(b[at(j * d + e)]);
      return sum;
    };
    for (std::int64_t m = 0; m < matrices(); ++m) {
      for (std::int64_t i = 0; i < queries; ++i) {
        const std::int64_t row = m * queries + i;
        std::int64_t visible = lengths[at(m / c_.heads)];
        if (c_.causal) visible = std::min(visible, i + keys - queries + 1);
        std::vector<double> weight;
        double largest = -std::numeric_limits<double>::infinity(), sum = 0, product = 0;
        for (std::int64_t j = 0; j < visible; ++j) {
          weight.push_back(scale * dot(q, row, k, m * keys + j, c_.dk) + double(bias[bias_place(m, i, j)]));
          largest = std::max(largest, weight.back());
        }
        for (double& w : weight) sum += w = std::exp(w - largest);
        r.log_sum_exp.push_back(largest + std::log(sum));
        for (std::int64_t j = 0; j < visible; ++j) {
          weight[at(j)] /= sum;
          r.weights[at(row * keys + j)] = weight[at(j)];
          r.received[at(m * keys + j)] += weight[at(j)];
          for (std::int64_t e = 0; e < c_.dv; ++e) {
            r.out[at(row * c_.dv + e)] += weight[at(j)] * double(v[at((m * keys + j) * c_.dv + e)]);
          }
          product += weight[at(j)] * dot(d_out, row, v, m * keys + j, c_.dv);
        }
        for (std::int64_t j = 0; j < visible; ++j) {
          const std::int64_t key = m * keys + j;
          const double d_score = weight[at(j)] * (dot(d_out, row, v, key, c_.dv) - product);
          r.d_bias[bias_place(m, i, j)] += d_score;
          for (std::int64_t e = 0; e < c_.dv; ++e) {
            r.d_v[at(key * c_.dv + e)] += weight[at(j)] * double(d_out[at(row * c_.dv + e)]);
          }
          for (std::int64_t e = 0; e < c_.dk; ++e) {
            r.d_q[at(row * c_.dk + e)] += scale * d_score * double(k[at(key * c_.dk + e)]);
            r.d_k[at(key * c_.dk + e)] += scale * d_score * double(q[at(row * c_.dk + e)]);
          }
        }
      }
    }
    return r;
  }

  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

 private:
  bias_case c_;

 public:
  std::vector<T> q, k, v, d_out, bias;
  std::vector<std::int64_t> lengths;
};

class attention_bias_test : public testing::TestWithParam<attention_layout> {
 protected:
  template <class T>
  void check(const bias_case& c) {
    SCOPED_TRACE(testing::Message() << "queries " << c.queries << " keys " << c.keys << " strides " << c.stride[0]
                                    << " " << c.stride[1] << " " << c.stride[2] << " " << c.stride[3]
                                    << (c.causal ? " causal" : "") << (c.padded ? " padded" : "") << " scale "
                                    << c.scale << " magnitude " << c.magnitude);
    const bias_data<T> data(c);
    const reference expected = data.compute();
    const std::int64_t b = c.batch, h = c.heads;
    const tensor<T> q(ctx_, {b, h, c.queries, c.dk}, data.q), k(ctx_, {b, h, c.keys, c.dk}, data.k),
        v(ctx_, {b, h, c.keys, c.dv}, data.v), d_out(ctx_, {b, h, c.queries, c.dv}, data.d_out),
        memory(ctx_, {c.size}, data.bias);
    tensor<T> d_memory(ctx_, {c.size}, std::vector<T>(data.bias.size(), T(0)));
    const tensor<std::int64_t> lengths(ctx_, {b}, data.lengths);
    const auto view_of = [&](auto* start) {
      view<std::remove_pointer_t<decltype(start)>, 4> x{start + c.first, {b, h, c.queries, c.keys}, {}};
      std::copy_n(c.stride, 4, x.stride);
      return x;
    };
    const view<const T, 4> bias = view_of(memory.data());
    tensor<T> out(ctx_, d_out.shape()), sums(ctx_, {b, h, c.queries}), weights(ctx_, {b, h, c.queries, c.keys}),
        received(ctx_, {b, h, c.keys}), d_q(ctx_, q.shape()), d_k(ctx_, k.shape()), d_v(ctx_, v.shape());
    const attention_options options{.scale = c.scale, .causal = c.causal, .lengths = lengths};
    attention(ctx_, {q, k, v, bias}, {.out = out, .log_sum_exp = sums}, options);
    attention_weights(ctx_, {q, k, sums, bias}, weights, {.attention = options});
    attention_received(ctx_, attention_scores<T>{q, k, sums, bias}, received, options);
    attention_backward(ctx_, {q, k, v, out, sums, d_out, bias}, {d_q, d_k, d_v, view_of(d_memory.data())}, options)
        .wait_and_throw();
    // Weights come from log_sum_exp: their relative error grows with the size of the scores.
    const double most = 30 * std::max(1.0, c.magnitude / 10);
    EXPECT_LT(scaled_residual<T>(out.to_host(), expected.out, c.keys), most) << "out";
    EXPECT_LT(scaled_residual<T>(sums.to_host(), expected.log_sum_exp, c.keys), most) << "log_sum_exp";
    EXPECT_LT(scaled_residual<T>(weights.to_host(), expected.weights, c.keys), most) << "weights";
    EXPECT_LT(scaled_residual<T>(received.to_host(), expected.received, c.keys), most) << "received";
    EXPECT_LT(scaled_residual<T>(d_v.to_host(), expected.d_v, c.keys), most) << "d_v";
    if (c.keys == 1) return;  // the other gradients are 0
    EXPECT_LT(scaled_residual<T>(d_q.to_host(), expected.d_q, c.keys), most) << "d_q";
    EXPECT_LT(scaled_residual<T>(d_k.to_host(), expected.d_k, c.keys), most) << "d_k";
    EXPECT_LT(scaled_residual<T>(d_memory.to_host(), expected.d_bias, c.keys), most) << "d_bias";
  }

  sycl::queue queue_{std::get<0>(GetParam()), sycl::property::queue::in_order{}};
  context ctx_{queue_, layout_of(GetParam())};
};

TEST_P(attention_bias_test, agrees_with_loops) {
  for (const bias_case& c : cases()) {
    check<float>(c);
    if (ctx_.device().fp64) check<double>(c);
  }
}

TEST_P(attention_bias_test, hides_keys) {
  constexpr std::int64_t S = 21, d = 4;
  constexpr float hidden = -std::numeric_limits<float>::infinity();
  const std::vector<float> numbers = random_numbers<float>(3 * S * d, 1);
  std::vector<float> mask(S * S, 0.f);
  for (std::int64_t i = 0; i < S; ++i) {
    for (std::int64_t j = 0; j < S; ++j) {
      if (i == 3 || (i + j) % 3 == 0) mask[static_cast<std::size_t>(i * S + j)] = hidden;
    }
  }
  const tensor<float> x(ctx_, {3, 1, S, d}, numbers), bias(ctx_, {1, 1, S, S}, mask);
  const auto part = [&](std::int64_t i) { return slice(x.as<4>(), 0, i, 1); };
  tensor<float> out(ctx_, {1, 1, S, d}), sums(ctx_, {1, 1, S}), weights(ctx_, {1, 1, S, S});
  attention(ctx_, {part(0), part(1), part(2), bias}, {.out = out, .log_sum_exp = sums});
  attention_weights(ctx_, {part(0), part(1), sums, bias}, weights).wait_and_throw();
  const std::vector<float> a = weights.to_host(), o = out.to_host();
  EXPECT_EQ(sums.to_host()[3], hidden);
  for (std::int64_t c = 0; c < d; ++c) EXPECT_EQ(o[static_cast<std::size_t>(3 * d + c)], 0.f);
  for (std::int64_t i = 0; i < S; ++i) {
    float sum = 0;
    for (std::int64_t j = 0; j < S; ++j) {
      const std::size_t at = static_cast<std::size_t>(i * S + j);
      if (mask[at] == hidden) {
        EXPECT_EQ(a[at], 0.f) << i << " " << j;
      }
      sum += a[at];
    }
    EXPECT_NEAR(sum, i == 3 ? 0.f : 1.f, 1e-5f) << i;
  }
}

TEST_P(attention_bias_test, reaches_effective_attention) {
  // A bias b_j that depends on the key alone, written as one more column of q and k.
  constexpr std::int64_t heads = 2, S = 33, dk = 4, dv = 3;
  const std::vector<double> q_numbers = random_numbers<double>(heads * S * dk, 1),
                            k_numbers = random_numbers<double>(heads * S * dk, 2), b = random_numbers<double>(S, 4);
  std::vector<double> wide_q, wide_k;
  for (std::int64_t row = 0; row < heads * S; ++row) {
    for (std::int64_t c = 0; c < dk; ++c) {
      wide_q.push_back(q_numbers[static_cast<std::size_t>(row * dk + c)]);
      wide_k.push_back(k_numbers[static_cast<std::size_t>(row * dk + c)]);
    }
    wide_q.push_back(1);
    wide_k.push_back(2 * b[static_cast<std::size_t>(row % S)]);  // 2: the scale is 1/2
  }
  const tensor<double> q(ctx_, {heads, S, dk}, q_numbers), k(ctx_, {heads, S, dk}, k_numbers),
      q5(ctx_, {heads, S, dk + 1}, wide_q), k5(ctx_, {heads, S, dk + 1}, wide_k),
      v(ctx_, {heads, S, dv}, random_numbers<double>(heads * S * dv, 3)), numbers(ctx_, {S}, b);
  effective_attention_tensor_options<double> options, plain;
  options.scale = plain.scale = 0.5;
  options.bias = view<const double, 4>{numbers.data(), {1, heads, S, S}, {0, 0, 0, 1}};
  const auto with_bias = effective_attention(ctx_, q, k, v, {}, options);
  const auto expected = effective_attention(ctx_, q5, k5, v, {}, plain);
  EXPECT_LT(scaled_residual<double>(with_bias.p.to_host(), expected.p.to_host(), S), 10);
  EXPECT_LT(scaled_residual<double>(with_bias.received_raw.to_host(), expected.received_raw.to_host(), S), 10);
  for (std::size_t i = 0; i < heads; ++i) EXPECT_NEAR(with_bias.summary[i].pearson, expected.summary[i].pearson, 1e-12);
  tensor<double> part(ctx_, {heads, S, S}), expected_part(ctx_, {heads, S, S});
  const view<const double, 3> bias = select(options.bias, 0, 0);
  attention_part(ctx_, attention_factors<double>{q, k, with_bias.log_sum_exp, with_bias.p, with_bias.u, bias}, part,
                 {.matrix = attention_matrix::null_part, .scale = 0.5});
  attention_part(ctx_, attention_factors<double>{q5, k5, expected.log_sum_exp, expected.p, expected.u}, expected_part,
                 {.matrix = attention_matrix::null_part, .scale = 0.5})
      .wait_and_throw();
  EXPECT_LT(scaled_residual<double>(part.to_host(), expected_part.to_host(), S), 10);
}

TEST_P(attention_bias_test, refuses_gradients_that_overlap) {
  const tensor<float> x(ctx_, {1, 1, 4, 2}, std::vector<float>(8, 1.f)),
      sums(ctx_, {1, 1, 4}, std::vector<float>(4, 0.f));
  tensor<float> d(ctx_, {3, 1, 1, 4, 2}), table(ctx_, {64});
  const auto gradient = [&](std::int64_t i) { return select(d.as<5>(), 0, i); };
  const view<const float, 4> bias = contiguous(static_cast<const float*>(table.data()), 1, 1, 4, 4);
  const auto run = [&](std::int64_t along_queries, std::int64_t along_keys) {
    const view<float, 4> d_bias{table.data() + 32, {1, 1, 4, 4}, {0, 0, along_queries, along_keys}};
    return message_of<invalid_argument>([&] {
      attention_backward(ctx_, {x, x, x, x, sums, x, bias}, {gradient(0), gradient(1), gradient(2), d_bias});
    });
  };
  EXPECT_NE(run(2, 1).find("d_bias"), std::string::npos);
  EXPECT_NE(run(1, 1).find("overlap"), std::string::npos);
  EXPECT_NE(run(4, 0).find("overlap"), std::string::npos);
}

TEST(relative_bucket, is_that_of_mpnet) {
  // 32 buckets up to 128: exact below 8, then logarithmic; 16, 32 and 64 lie at the edge of a bucket.
  const std::int64_t distances[] = {0, 1, 7, 8, 11, 12, 15, 16, 22, 23, 31, 32, 45, 46, 63, 64, 90, 91, 127, 128, 5000};
  const std::int64_t buckets[] = {0, 1, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13, 14, 14, 15, 15, 15, 15};
  for (std::size_t i = 0; i < std::size(distances); ++i) {
    EXPECT_EQ(relative_bucket(-distances[i], 32), buckets[i]) << distances[i];
    if (distances[i] == 0) continue;
    EXPECT_EQ(relative_bucket(distances[i], 32), 16 + buckets[i]) << distances[i];
  }
  EXPECT_NE(message_of<invalid_argument>([] { relative_bucket(1, 7); }).find("even"), std::string::npos);
  EXPECT_NE(message_of<invalid_argument>([] { relative_bucket(1, 32, 8); }).find("distance"), std::string::npos);
}

TEST_P(attention_bias_test, table_and_gradient_of_relative_positions) {
  for (const std::int64_t tokens : {1, 2, 9, 200}) {
    constexpr std::int64_t heads = 3, buckets = 32;
    const std::vector<float> weights = random_numbers<float>(buckets * heads, 1);
    const std::int64_t entries = 2 * tokens - 1;
    const std::vector<float> d_table = random_numbers<float>(heads * entries, 2);
    const tensor<float> w(ctx_, {buckets, heads}, weights), d(ctx_, {heads, entries}, d_table);
    tensor<float> table(ctx_, {heads, entries}), d_w(ctx_, {buckets, heads}, weights);
    relative_bias(ctx_, w, table);
    relative_bias_backward(ctx_, d, d_w).wait_and_throw();
    const std::vector<float> got = table.to_host();
    std::vector<double> expected(weights.begin(), weights.end());
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t e = 0; e < entries; ++e) {
        const std::int64_t b = relative_bucket(e - (tokens - 1), buckets);
        EXPECT_EQ(got[static_cast<std::size_t>(h * entries + e)], weights[static_cast<std::size_t>(b * heads + h)]);
        expected[static_cast<std::size_t>(b * heads + h)] += d_table[static_cast<std::size_t>(h * entries + e)];
      }
    }
    EXPECT_LT(scaled_residual<float>(d_w.to_host(), expected, entries), 10);
  }
}

INSTANTIATE_TEST_SUITE_P(devices, attention_bias_test, attention_layouts(), attention_layout_name);

}  // namespace
}  // namespace nullscope::test

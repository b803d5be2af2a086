/// Effective attention against its definitions: numbers, padding, NaN.
#include <nullscope/attention/effective_attention.hpp>
#include <nullscope/linalg/svd.hpp>

#include "lib/src/core/dispatch.hpp"
#include "tests/attention/effective_attention_reference.hpp"
#include "tests/attention/effective_attention_support.hpp"

namespace nullscope::test {
namespace {

constexpr double bound = 10;  // of a scaled residual

/// Rows [head * count, (head + 1) * count) of a host copy.
template <class T>
std::vector<T> part_of(const std::vector<T>& all, std::int64_t head, std::int64_t count) {
  return {all.begin() + head * count, all.begin() + (head + 1) * count};
}

template <class T>
void check_shape(context& ctx, const head_shape& s) {
  const head_data<T> data = make_data<T>(s);
  const effective_attention_tensors<T> result = compute(ctx, data, s);
  const std::int64_t columns = std::min({s.keys, s.dv, s.d == 0 ? s.dv : s.d});
  ASSERT_EQ(result.p.shape(), (std::vector<std::int64_t>{s.heads, s.queries, columns})) << s.text();
  const std::vector<T> p = result.p.to_host(), u = result.u.to_host();
  const std::vector<T> raw = result.received_raw.to_host(), effective = result.received_effective.to_host();
  const double eps = static_cast<double>(std::numeric_limits<T>::epsilon());
  for (std::int64_t head = 0; head < s.heads; ++head) {
    const reference expected = make_reference(data, s, head);
    const auto i = static_cast<std::size_t>(head);
    EXPECT_EQ(result.rank[i], expected.rank) << s.text();
    EXPECT_EQ(result.null_dimension[i], s.keys - expected.rank) << s.text();
    std::vector<T> product(static_cast<std::size_t>(s.queries * s.keys), T(0));  // P U^T
    for (std::int64_t row = 0; row < s.queries; ++row) {
      for (std::int64_t key = 0; key < s.keys; ++key) {
        for (std::int64_t c = 0; c < columns; ++c) {
          product[static_cast<std::size_t>(row * s.keys + key)] +=
              p[static_cast<std::size_t>((head * s.queries + row) * columns + c)] *
              u[static_cast<std::size_t>((head * s.keys + key) * columns + c)];
        }
      }
    }
    // The basis of the range turns by eps * condition of T, so the residual is scaled by the smallest singular value.
    const std::vector<T> values = part_of(result.s.to_host(), head, columns);
    const double condition =
        expected.rank == 0 ? 1 : static_cast<double>(values[0] / values[static_cast<std::size_t>(expected.rank) - 1]);
    EXPECT_LT(condition, 500) << "of random numbers " << s.text();
    const double depth = condition * std::sqrt(static_cast<double>(s.keys + s.dk));
    EXPECT_LT(scaled_residual(product, expected.effective, depth), bound) << s.text();
    EXPECT_LT(scaled_residual(part_of(raw, head, s.keys), expected.received_raw, std::sqrt(double(s.keys + s.dk))),
              bound)
        << s.text();
    EXPECT_LT(scaled_residual(part_of(effective, head, s.keys), expected.received_effective, depth), bound) << s.text();
    const effective_attention_summary<T>& summary = result.summary[i];
    EXPECT_NEAR(double(summary.raw_norm), expected.raw_norm, bound * eps * expected.raw_norm * 4) << s.text();
    EXPECT_NEAR(double(summary.effective_norm), expected.effective_norm, bound * depth * eps * expected.raw_norm);
    EXPECT_NEAR(std::pow(double(summary.null_norm), 2), std::pow(expected.null_norm, 2),
                bound * depth * eps * std::pow(expected.raw_norm, 2))
        << s.text();
    if (s.queries * s.keys > 1) {
      EXPECT_NEAR(double(summary.pearson), expected.pearson, bound * depth * eps) << s.text();
    }
  }
}

const std::vector<head_shape> shapes{
    {1, 1, 2, 1, 1, 1},
    {3, 7, 7, 5, 3, 9},
    {2, 65, 65, 16, 8, 24},
    {2, 33, 33, 16, 40, 64},           // more columns than tokens: the null space is {0}
    {1, 300, 300, 64, 64, 96},         // more than one block of rows
    {2, 50, 50, 8, 6, 0},              // no h
    {2, 40, 40, 8, 6, 12, true},       // causal
    {2, 30, 45, 8, 6, 12, true},       // more keys than queries
    {2, 45, 30, 8, 6, 12, true},       // rows that see nothing
    {2, 60, 60, 8, 10, 12, false, 3},  // rank-deficient values
    {2, 60, 60, 8, 10, 4},             // narrow h
};

INSTANTIATE_TEST_SUITE_P(devices, effective_attention_test, testing::ValuesIn(devices()), device_name);

TEST_P(effective_attention_test, agrees_with_the_formulas_in_float) {
  for (const head_shape& s : shapes) check_shape<float>(ctx_, s);
}

TEST_P(effective_attention_test, agrees_with_the_formulas_in_double) {
  if (!has_fp64()) GTEST_SKIP() << "no fp64";
  for (const head_shape& s : shapes) check_shape<double>(ctx_, s);
}

TEST_P(effective_attention_test, agrees_with_the_formulas_in_the_layout_of_gpus) {
  if (!detail::has_gpu_layouts) GTEST_SKIP() << "this build has no layouts of GPUs";
  context ctx(queue_, lane_layout::work_items(ctx_.device(), 32));
  for (const head_shape& s : {shapes[1], shapes[2], shapes[4]}) check_shape<float>(ctx, s);
}

TEST_P(effective_attention_test, correlates_attention_that_is_nearly_uniform) {
  const head_shape s{2, 128, 128, 8, 4, 8};
  const head_data<float> data = make_data<float>(s, 0.02);  // weights differ by a percent
  const auto result = compute(ctx_, data, s);
  for (std::int64_t head = 0; head < s.heads; ++head) {
    EXPECT_NEAR(result.summary[static_cast<std::size_t>(head)].pearson, make_reference(data, s, head).pearson, 1e-2);
  }
}

/// The less weights differ, the less their rounding leaves of a correlation: it is right to three percent, or NaN.
TEST_P(effective_attention_test, correlation_of_weights_that_hardly_differ_is_right_or_nan) {
  const head_shape s{4, 128, 128, 8, 4, 8};
  int numbers = 0;
  for (const double spread : {0.05, 0.02, 0.01, 0.006, 0.004, 0.003, 0.002, 0.001}) {
    const head_data<float> data = make_data<float>(s, spread);
    const auto result = compute(ctx_, data, s);
    for (std::int64_t head = 0; head < s.heads; ++head) {
      const float pearson = result.summary[static_cast<std::size_t>(head)].pearson;
      if (std::isnan(pearson)) continue;
      ++numbers;
      const double expected = make_reference(data, s, head).pearson;
      EXPECT_NEAR(pearson, expected, 3e-2 * expected) << spread;
    }
  }
  EXPECT_GE(numbers, 8);  // of the larger spreads
}

TEST_P(effective_attention_test, has_no_correlation_where_nothing_varies) {
  const head_shape one_token{1, 1, 1, 4, 4, 4}, uniform{1, 20, 20, 4, 4, 4};
  EXPECT_TRUE(std::isnan(compute(ctx_, make_data<float>(one_token), one_token).summary[0].pearson));
  const auto result = compute(ctx_, make_data<float>(uniform, 0), uniform);
  EXPECT_TRUE(std::isnan(result.summary[0].pearson));
  EXPECT_FLOAT_EQ(result.summary[0].raw_norm, 1);
}

TEST_P(effective_attention_test, correlation_is_one_where_the_null_space_is_empty) {
  const head_shape s{2, 16, 16, 8, 32, 32};
  for (const auto& summary : compute(ctx_, make_data<float>(s), s).summary) {
    EXPECT_NEAR(summary.pearson, 1, 1e-5);
    EXPECT_LE(summary.pearson, 1);
    EXPECT_EQ(summary.null_norm, 0);
  }
}

TEST_P(effective_attention_test, gives_dense_parts_and_tiles_of_them) {
  const head_shape s{2, 37, 37, 8, 5, 12, true};
  const head_data<float> data = make_data<float>(s);
  auto result = compute(ctx_, data, s);
  const tensor<float> q(ctx_, {2, 37, 8}, data.q), k(ctx_, {2, 37, 8}, data.k);
  const attention_factors<float> factors{q, k, result.log_sum_exp, result.p, result.u};
  const auto part = [&](attention_matrix which, std::int64_t row, std::int64_t column, std::int64_t rows,
                        std::int64_t columns) {
    tensor<float> out(ctx_, {2, rows, columns});
    attention_part(ctx_, factors, out, {.matrix = which, .first_query = row, .first_key = column, .causal = true})
        .wait_and_throw();
    return out.to_host();
  };
  for (std::int64_t head = 0; head < 2; ++head) {
    const reference expected = make_reference(data, s, head);
    matrix rest = expected.raw;
    for (std::size_t i = 0; i < rest.size(); ++i) rest[i] -= expected.effective[i];
    const auto dense = [&](attention_matrix which) { return part_of(part(which, 0, 0, 37, 37), head, 37 * 37); };
    EXPECT_LT(scaled_residual(dense(attention_matrix::raw), expected.raw, 8), bound);
    EXPECT_LT(scaled_residual(dense(attention_matrix::effective), expected.effective, 100), bound);
    EXPECT_LT(scaled_residual(dense(attention_matrix::null_part), rest, 100), bound);
    const std::vector<float> whole = dense(attention_matrix::null_part),
                             tile = part_of(part(attention_matrix::null_part, 11, 3, 7, 20), head, 7 * 20);
    for (std::size_t i = 0; i < tile.size(); ++i) {
      EXPECT_NEAR(tile[i], whole[(11 + i / 20) * 37 + 3 + i % 20], 1e-6);
    }
  }
  tensor<float> beyond(ctx_, {2, 7, 20});
  EXPECT_NE(message_of<invalid_argument>([&] {
              attention_part(ctx_, factors, beyond,
                             {.matrix = attention_matrix::raw, .first_query = 31, .first_key = 3, .causal = true});
            }).find("from query 31 and key 3 on goes beyond 37 queries and 37 keys"),
            std::string::npos);
}

TEST_P(effective_attention_test, keeps_padding_out) {
  constexpr std::int64_t batch = 3, heads = 2, tokens = 40, dk = 8, dv = 5, d = 12;
  const std::vector<std::int64_t> lengths{40, 17, 3};
  auto q = random_numbers<float>(batch * heads * tokens * dk, 1),
       k = random_numbers<float>(batch * heads * tokens * dk, 2),
       v = random_numbers<float>(batch * heads * tokens * dv, 3);
  for (std::int64_t row = 0; row < batch * heads * tokens; ++row) {  // padding is poison
    if (row % tokens < lengths[static_cast<std::size_t>(row / tokens / heads)]) continue;
    std::fill_n(q.begin() + row * dk, dk, NAN);
    std::fill_n(k.begin() + row * dk, dk, NAN);
    std::fill_n(v.begin() + row * dv, dv, NAN);
  }
  const auto h = random_numbers<float>(heads * dv * d, 4);
  const tensor<float> h_device(ctx_, {heads, dv, d}, h);
  const auto padded = effective_attention(ctx_, tensor<float>(ctx_, {batch, heads, tokens, dk}, q),
                                          tensor<float>(ctx_, {batch, heads, tokens, dk}, k),
                                          tensor<float>(ctx_, {batch, heads, tokens, dv}, v), h_device, {{}, lengths});
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t length = lengths[static_cast<std::size_t>(b)];
    const auto cut = [&](const std::vector<float>& x, std::int64_t width) {
      std::vector<float> rows;
      for (std::int64_t head = 0; head < heads; ++head) {
        const auto first = x.begin() + (b * heads + head) * tokens * width;
        rows.insert(rows.end(), first, first + length * width);
      }
      return tensor<float>(ctx_, {heads, length, width}, rows);
    };
    const auto alone = effective_attention(ctx_, cut(q, dk), cut(k, dk), cut(v, dv), h_device);
    for (std::int64_t head = 0; head < heads; ++head) {
      const auto i = static_cast<std::size_t>(b * heads + head), j = static_cast<std::size_t>(head);
      EXPECT_EQ(padded.rank[i], std::min(length, dv));
      EXPECT_EQ(padded.null_dimension[i], alone.null_dimension[j]);
      EXPECT_EQ(padded.summary[i].pearson, alone.summary[j].pearson);
      const auto received = part_of(padded.received_effective.to_host(), b * heads + head, tokens);
      const auto expected = part_of(alone.received_effective.to_host(), head, length);
      for (std::int64_t t = 0; t < tokens; ++t) {
        EXPECT_EQ(received[static_cast<std::size_t>(t)], t < length ? expected[static_cast<std::size_t>(t)] : 0);
      }
    }
  }
}

TEST_P(effective_attention_test, a_head_with_nan_fails_alone) {
  const head_shape s{3, 20, 20, 4, 4, 8};
  head_data<float> data = make_data<float>(s);
  data.v[20 * 4 + 5] = NAN;  // of the second head
  try {
    compute(ctx_, data, s);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const computation_error& error) {
    EXPECT_EQ(error.failed_batch_ids(), std::vector<std::int64_t>{1});
  }
}

TEST_P(effective_attention_test, the_summary_of_a_head_with_nan_in_v_has_the_norm_of_its_weights_alone) {
  const head_shape s{2, 20, 20, 4, 4, 0};
  head_data<float> data = make_data<float>(s);
  const auto expected = compute(ctx_, data, s);
  data.v[5] = NAN;  // of the first head
  const tensor<float> q(ctx_, {2, 20, 4}, data.q), k(ctx_, {2, 20, 4}, data.k), v(ctx_, {2, 20, 4}, data.v);
  tensor<float> p(ctx_, {2, 20, 4}), u(ctx_, {2, 20, 4}), values(ctx_, {2, 4}), log_sum_exp(ctx_, {2, 20}),
      raw(ctx_, {2, 20}), effective(ctx_, {2, 20});
  tensor<std::int64_t> rank(ctx_, {2});
  tensor<std::int32_t> status(ctx_, {2});
  tensor<effective_attention_summary<float>> summary(ctx_, {2});
  effective_attention(ctx_, {q, k, v},
                      {.p = p,
                       .u = u,
                       .s = values,
                       .rank = rank,
                       .status = status,
                       .log_sum_exp = log_sum_exp,
                       .summary = summary,
                       .received_raw = raw,
                       .received_effective = effective})
      .wait_and_throw();
  const auto got = summary.to_host();
  for (const float x : {got[0].pearson, got[0].effective_norm, got[0].null_norm, effective.to_host()[3]}) {
    EXPECT_TRUE(std::isnan(x)) << x;
  }
  EXPECT_EQ(got[0].raw_norm, expected.summary[0].raw_norm);
  EXPECT_EQ(got[1].pearson, expected.summary[1].pearson);
  EXPECT_EQ(raw.to_host(), expected.received_raw.to_host());
}

}  // namespace
}  // namespace nullscope::test

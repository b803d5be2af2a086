#include <numbers>

#include "tests/attention/attention_fixture.hpp"

namespace nullscope::test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();

/// In every layout with float operands, and with bfloat16 on the matrix engine.
class attention_special : public attention_fixture {
 protected:
  static bool takes_tiles() { return kernels_under_test() == attention_kernels::matrix_engine; }

  /// Calls work.operator()<In>(), In being the type of the operands.
  template <class Work>
  static void with_operands(Work work) {
    if (takes_tiles()) {
      work.template operator()<bfloat16>();
    } else {
      work.template operator()<float>();
    }
  }

  template <class In>
  static std::vector<In> as(const std::vector<float>& numbers) {
    return std::vector<In>(numbers.begin(), numbers.end());
  }
};
INSTANTIATE_TEST_SUITE_P(devices, attention_special,
                         attention_layouts({attention_kernels::vectors_64, attention_kernels::vectors_32,
                                            attention_kernels::work_items, attention_kernels::matrix_engine}),
                         attention_layout_name);

TEST_P(attention_special, a_query_that_sees_nothing_gets_zeros) {
  with_operands([&]<class In>() {
    const tensor<std::int64_t> lengths(queue_, {1}, std::vector<std::int64_t>{0});
    const auto masked = run_all(as<In>({1, 2}), as<In>({3, 4}), as<In>({5, 6}), 1, {.lengths = lengths});
    EXPECT_EQ(masked.out, (std::vector<float>{0, 0}));
    EXPECT_EQ(masked.log_sum_exp, std::vector<float>(2, -infinity));
    const auto causal = run(as<In>({1, 2, 3}), as<In>({1}), as<In>({7}), 1, {.causal = true});
    EXPECT_EQ(causal[0], 0);
    EXPECT_EQ(causal[1], 0);
    EXPECT_FLOAT_EQ(causal[2], 7);  // the last query alone sees the one key
    EXPECT_EQ(run(as<In>({1, 2}), as<In>({}), as<In>({}), 1), (std::vector<float>{0, 0}));
  });
}

TEST_P(attention_special, scores_may_rise_far_above_the_first_ones) {
  with_operands([&]<class In>() {
    for (const std::int64_t keys : {48, 1000}) {
      std::vector<float> k, v;
      for (std::int64_t j = 0; j < keys; ++j) {
        const std::int64_t tenth = j * 10 / keys;  // scores 0, 100, ... 900: all but the last tenth vanish
        k.push_back(static_cast<float>(tenth));
        v.push_back(tenth == 9 ? 3.f : -5.f);
      }
      const auto result = run_all(as<In>({100}), as<In>(k), as<In>(v), 1);
      EXPECT_NEAR(result.out[0], 3, 1e-3) << keys;  // scores of 900 are rounded to 1e-4
      const auto last = static_cast<float>(std::count(v.begin(), v.end(), 3.f));
      EXPECT_NEAR(result.log_sum_exp[0], 900 + std::log(last), 1e-3) << keys;
    }
  });
}

TEST_P(attention_special, keys_whose_score_is_minus_infinity_get_no_weight) {
  with_operands([&]<class In>() {
    for (const std::size_t visible : {std::size_t(0), std::size_t(1), std::size_t(40)}) {  // the last keys
      std::vector<float> k(300, -infinity), v(300, 9);
      for (std::size_t j = 300 - visible; j < 300; ++j) k[j] = 2, v[j] = 4;
      const auto result = run_all(as<In>({1}), as<In>(k), as<In>(v), 1);
      EXPECT_FLOAT_EQ(result.out[0], visible == 0 ? 0 : 4) << visible;
      EXPECT_FLOAT_EQ(result.log_sum_exp[0], visible == 0 ? -infinity : 2 + std::log(static_cast<float>(visible)));
    }
  });
}

/// Weights of any row add up to one, however large its scores are, and its log_sum_exp is near the largest of them.
template <class In, class Run>
void check_large_scores(Run run, std::int64_t d, double magnitude) {
  constexpr std::size_t s = 100;
  SCOPED_TRACE(testing::Message() << "heads of " << d << ", entries of " << magnitude);
  std::vector<In> q, k;
  const std::int64_t size = static_cast<std::int64_t>(s) * d;
  for (const double x : random_numbers<double>(size, 1)) q.push_back(In(static_cast<float>(x * magnitude)));
  for (const double x : random_numbers<double>(size, 2)) k.push_back(In(static_cast<float>(x * magnitude)));
  const auto result = run(q, k, std::vector<In>(q.size(), In(1.0f)));
  for (const auto x : result.out) ASSERT_NEAR(x, 1, 0.01);  // weights may be rounded to bfloat16
  const auto columns = static_cast<std::size_t>(d);
  for (std::size_t i = 0; i < s; ++i) {
    double largest = -std::numeric_limits<double>::infinity();
    for (std::size_t j = 0; j < s; ++j) {
      double score = 0;
      for (std::size_t c = 0; c < columns; ++c) {
        score += static_cast<double>(q[i * columns + c]) * static_cast<double>(k[j * columns + c]);
      }
      largest = std::max(largest, score / std::sqrt(static_cast<double>(d)));
    }
    ASSERT_NEAR(static_cast<double>(result.log_sum_exp[i]) / largest, 1, 1e-5) << "query " << i;
  }
}

TEST_P(attention_special, finite_scores_of_any_size_are_right) {
  for (const std::int64_t d : {1, 12, 16}) {
    with_operands([&]<class In>() {
      for (const double magnitude : {3e4, 1e5, 1e8, 1e17}) {
        check_large_scores<In>([&](auto... x) { return run_all(x..., d); }, d, magnitude);
      }
    });
    if (!properties(std::get<0>(GetParam())).fp64) continue;
    for (const double magnitude : {1e5, 1e10, 1e30}) {
      check_large_scores<double>([&](auto... x) { return run_all(x..., d); }, d, magnitude);
    }
  }
}

TEST_P(attention_special, a_scale_below_zero_is_one_of_queries_turned_round) {
  with_operands([&]<class In>() {
    constexpr std::int64_t d = 12;
    auto q = random_numbers<float>(50 * d, 1);
    const auto k = as<In>(random_numbers<float>(300 * d, 2)), v = as<In>(random_numbers<float>(300 * d, 3));
    const auto turned = run_all(as<In>(q), k, v, d, {.scale = -3.5});
    for (float& x : q) x = -x;
    const auto expected = run_all(as<In>(q), k, v, d, {.scale = 3.5});
    EXPECT_EQ(turned.out, expected.out);
    EXPECT_EQ(turned.log_sum_exp, expected.log_sum_exp);
  });
}

TEST_P(attention_special, scores_far_below_zero_have_weights_too) {
  with_operands([&]<class In>() {
    const auto result =
        run_all(as<In>({3e19f}), as<In>(std::vector<float>(300, -1e19f)), as<In>(std::vector<float>(300, 3)), 1);
    EXPECT_NEAR(result.out[0], 3, 0.02);
    EXPECT_NEAR(result.log_sum_exp[0], -3e38f, 3e36f);
  });
}

/// An attention sink: one key has the weight 1, and each of many others so little that it would not change a sum of 1.
TEST_P(attention_special, many_small_weights_count_beside_a_large_one) {
  with_operands([&]<class In>() {
    constexpr std::int64_t keys = 100'000;
    const In small(-25 * std::numbers::ln2_v<float>);
    std::vector<In> k(keys, small), v(keys, In(1.f));
    k[0] = In(0.f);
    v[0] = In(0.f);
    const double rest = static_cast<double>(keys - 1) * std::exp(static_cast<double>(static_cast<float>(small)));
    const auto result = run_all(as<In>({1}), k, v, 1);
    // Beside the large one the others of its block of keys are lost, at most 256 of half an eps; on a matrix engine all
    // that share its lane, one of 16, and weights are rounded to bfloat16.
    const double rounding = takes_tiles() ? 0x1p-8 : 128 * std::numeric_limits<float>::epsilon();
    EXPECT_NEAR(result.out[0], rest / (1 + rest), rounding * rest);
    EXPECT_NEAR(result.log_sum_exp[0], std::log1p(rest), takes_tiles() ? rest / 12 : rounding);
  });
}

TEST_P(attention_special, a_row_that_is_not_a_number_has_no_log_sum_exp) {
  with_operands([&]<class In>() {
    for (const double scale : {0.5, 2.0}) {
      const auto of_query = run_all(as<In>({nan, 1}), as<In>({1, 0}), as<In>({1, 1}), 1, {.scale = scale});
      EXPECT_TRUE(std::isnan(of_query.log_sum_exp[0]));
      EXPECT_FALSE(std::isnan(of_query.log_sum_exp[1]));
      for (const float key : {nan, infinity}) {
        const auto of_key = run_all(as<In>({1, 1}), as<In>({0, key}), as<In>({1, 1}), 1, {.scale = scale});
        for (const float x : of_key.log_sum_exp) EXPECT_TRUE(std::isnan(x)) << key << ' ' << x;
      }
      EXPECT_TRUE(std::isnan(run_all(as<In>({nan}), as<In>({1}), as<In>({1}), 1, {.scale = scale}).log_sum_exp[0]));
    }
  });
}

TEST_P(attention_special, nan_in_padding_is_not_seen_and_elsewhere_stays_in_its_row) {
  with_operands([&]<class In>() {
    constexpr std::int64_t s = 50, d = 8;
    const auto x = random_numbers<float>(s * d, 1);
    std::vector<In> q = as<In>(x), k = q;
    for (std::size_t i = 41 * d; i < s * d; ++i) k[i] = static_cast<In>(nan);
    q[3 * d] = static_cast<In>(nan);
    const tensor<std::int64_t> lengths(queue_, {1}, std::vector<std::int64_t>{41});
    const std::vector<float> out = run(q, k, k, d, {.lengths = lengths});
    for (std::size_t i = 0; i < out.size(); ++i) ASSERT_EQ(std::isnan(out[i]), i / d == 3) << i;
  });
}

TEST_P(attention_special, is_the_same_to_the_bit_in_every_run) {
  with_operands([&]<class In>() {
    const auto q = as<In>(random_numbers<float>(300 * 8, 1)), k = as<In>(random_numbers<float>(500 * 8, 2)),
               v = as<In>(random_numbers<float>(500 * 8, 3));
    const std::vector<float> first = run(q, k, v, 8);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(run(q, k, v, 8), first);
  });
}

/// Heads that are interleaved with tokens, as a model's projection writes them, and transposed ones.
TEST_P(attention_special, takes_any_strides) {
  with_operands([&]<class In>() {
    constexpr std::int64_t batch = 2, tokens = 70, heads = 3, d = 40, size = batch * tokens * heads * d;
    const std::vector<In> dense = as<In>(random_numbers<float>(size, 1));
    const std::array<std::array<std::int64_t, 4>, 2> strides{
        {{tokens * heads * d, d, heads * d, 1}, {tokens * heads, 1, heads, batch * tokens * heads}}};
    for (const auto& stride : strides) {
      std::vector<In> moved(size);
      const auto place = [&](std::int64_t i) {
        return static_cast<std::size_t>(i % d * stride[3] + i / d % tokens * stride[2] +
                                        i / d / tokens % heads * stride[1] + i / d / tokens / heads * stride[0]);
      };
      for (std::int64_t i = 0; i < size; ++i) moved[place(i)] = dense[static_cast<std::size_t>(i)];
      const tensor<In> x(queue_, {size}, moved);
      tensor<float> out(queue_, {size});
      const auto view_of = [&]<class T>(T* data) {
        return view<T, 4>{data, {batch, heads, tokens, d}, {stride[0], stride[1], stride[2], stride[3]}};
      };
      const auto x_view = view_of(x.data());
      attention(ctx_, {x_view, x_view, x_view}, {.out = view_of(out.data())}).wait_and_throw();
      const std::vector<float> got = out.to_host();
      for (std::int64_t head = 0; head < batch * heads; ++head) {
        const auto begin = dense.begin() + head * tokens * d;
        const std::vector<In> of_head(begin, begin + tokens * d);
        const std::vector<float> expected = run(of_head, of_head, of_head, d);
        for (std::int64_t i = 0; i < tokens * d; ++i) {
          ASSERT_EQ(got[place(head * tokens * d + i)], expected[static_cast<std::size_t>(i)]) << stride[3] << ' ' << i;
        }
      }
    }
  });
}

TEST_P(attention_special, refuses_shapes_that_do_not_fit_and_a_workspace_that_is_too_small) {
  tensor<float> x(queue_, {1, 2, 8, 8}), narrow(queue_, {1, 2, 8, 7}), out(queue_, {1, 2, 8, 8});
  const view<const float, 4> columns = transposed(std::as_const(x).as<4>());  // needs a copy in every layout
  const auto message = [&](view<const float, 4> q) {
    return message_of<invalid_argument>([&] { attention(ctx_, {q, columns, columns}, {.out = out}); });
  };
  EXPECT_EQ(
      message(narrow),
      "attention: dimension 3 of q (1, 2, 8, 7) with strides (112, 56, 7, 1) differs from dimension 3 of k (1, 2, 8, "
      "8) with strides (128, 64, 1, 8)");
  tensor<std::byte> small(queue_, {100});
  ctx_.use_workspace(small.span());
  EXPECT_NE(message(x).find("attention: the workspace is too small"), std::string::npos);
  ctx_.use_workspace({});
  const auto nothing = contiguous<const float>(nullptr, 1, 2, 8, 0);
  EXPECT_NE(message_of<invalid_argument>([&] {
              attention(ctx_, {x, columns, nothing}, {.out = contiguous<float>(nullptr, 1, 2, 8, 0)});
            }).find("has heads of no columns"),
            std::string::npos);
}

}  // namespace
}  // namespace nullscope::test

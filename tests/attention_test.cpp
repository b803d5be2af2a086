#include <nullscope/attention.hpp>
#include <nullscope/tensor.hpp>

#include "attention_layouts.hpp"

namespace nullscope::test {
namespace {

struct attention_case {
  std::int64_t batch, heads, queries, keys, dk, dv;
  bool causal = false;
  std::vector<std::int64_t> lengths = {};
  double magnitude = 1;
};

/// What attention computes, plainly in T: the f64 instance is the reference, the T instance the yardstick for errors.
template <class T>
struct plain_result {
  std::vector<T> out, log_sum_exp, squares;
};

template <class T, class In>
plain_result<T> plain_attention(const attention_case& c, const std::vector<In>& q, const std::vector<In>& k,
                                const std::vector<In>& v, bool rounds_weights = false) {
  plain_result<T> result;
  const T scale = T(1) / std::sqrt(T(c.dk));
  for (std::int64_t bh = 0; bh < c.batch * c.heads; ++bh) {
    for (std::int64_t i = 0; i < c.queries; ++i) {
      std::int64_t visible = c.lengths.empty() ? c.keys : c.lengths[static_cast<std::size_t>(bh / c.heads)];
      if (c.causal) visible = std::min(visible, i + c.keys - c.queries + 1);
      visible = std::max<std::int64_t>(visible, 0);
      std::vector<T> weight(static_cast<std::size_t>(visible));
      T maximum = -std::numeric_limits<T>::infinity(), sum = 0, squares = 0;
      for (std::int64_t j = 0; j < visible; ++j) {
        T score = 0;
        for (std::int64_t d = 0; d < c.dk; ++d) {
          score += static_cast<T>(q[static_cast<std::size_t>((bh * c.queries + i) * c.dk + d)]) *
                   static_cast<T>(k[static_cast<std::size_t>((bh * c.keys + j) * c.dk + d)]);
        }
        weight[static_cast<std::size_t>(j)] = score * scale;
        maximum = std::max(maximum, score * scale);
      }
      for (T& w : weight) sum += w = std::exp(w - maximum);
      for (T& w : weight) w /= sum, squares += w * w;
      if (rounds_weights) {  // as a plain implementation in bfloat16 does
        for (T& w : weight) w = static_cast<T>(static_cast<float>(bfloat16(static_cast<float>(w))));
      }
      for (std::int64_t d = 0; d < c.dv; ++d) {
        T total = 0;
        for (std::int64_t j = 0; j < visible; ++j) {
          total += weight[static_cast<std::size_t>(j)] *
                   static_cast<T>(v[static_cast<std::size_t>((bh * c.keys + j) * c.dv + d)]);
        }
        result.out.push_back(total);
      }
      result.log_sum_exp.push_back(maximum + std::log(sum));
      result.squares.push_back(squares);
    }
  }
  return result;
}

template <class T>
double largest_error(const std::vector<T>& got, const std::vector<double>& expected) {
  EXPECT_EQ(got.size(), expected.size());
  double error = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (static_cast<double>(got[i]) == expected[i]) continue;  // infinities too
    const double difference = std::abs(static_cast<double>(got[i]) - expected[i]);
    error = std::max(error, std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference);
  }
  return error;
}

class attention_test : public testing::TestWithParam<attention_layout> {
 protected:
  attention_test() { detail::force_attention_lanes(std::get<1>(GetParam())); }
  ~attention_test() override { detail::force_attention_lanes(std::nullopt); }

  /// The error against f64 is at most twice that of a plain implementation in the same precision.
  template <class In, class T>
  void check(const attention_case& c) {
    SCOPED_TRACE(testing::Message() << "batch " << c.batch << " heads " << c.heads << " queries " << c.queries
                                    << " keys " << c.keys << " dk " << c.dk << " dv " << c.dv
                                    << (c.causal ? " causal" : ""));
    const auto numbers = [&](std::int64_t count, std::uint64_t seed, double factor) {
      std::vector<In> result;
      for (const double x : random_numbers<double>(count, seed)) {
        result.push_back(static_cast<In>(static_cast<T>(x * factor)));
      }
      return result;
    };
    const auto q = numbers(c.batch * c.heads * c.queries * c.dk, 1, c.magnitude);
    const auto k = numbers(c.batch * c.heads * c.keys * c.dk, 2, 1);
    const auto v = numbers(c.batch * c.heads * c.keys * c.dv, 3, 1);
    const tensor<In> q_device(queue_, {c.batch, c.heads, c.queries, c.dk}, q);
    const tensor<In> k_device(queue_, {c.batch, c.heads, c.keys, c.dk}, k);
    const tensor<In> v_device(queue_, {c.batch, c.heads, c.keys, c.dv}, v);
    const tensor<std::int64_t> lengths(queue_, {static_cast<std::int64_t>(c.lengths.size())}, c.lengths);
    const std::vector<T> rubbish(static_cast<std::size_t>(c.batch * c.heads * c.queries * c.dv), T(-77));
    tensor<T> out(queue_, {c.batch, c.heads, c.queries, c.dv}, rubbish);
    tensor<T> log_sum_exp(queue_, {c.batch, c.heads, c.queries}), squares(queue_, {c.batch, c.heads, c.queries});
    attention_options options{.causal = c.causal};
    if (!c.lengths.empty()) options.lengths = lengths.as<1>();
    tensor<std::byte> scratchpad(
        queue_, {attention_scratchpad_size<In>(queue_, k_device.template as<4>(), v_device.template as<4>())});
    attention<In, T>(queue_, q_device.template as<4>(), k_device.template as<4>(), v_device.template as<4>(),
                     out.template as<4>(), {log_sum_exp.template as<3>(), squares.template as<3>()}, scratchpad.span(),
                     options)
        .wait_and_throw();
    const auto expected = plain_attention<double>(c, q, k, v);
    const bool is_rounded = std::is_same_v<In, bfloat16> && std::get<1>(GetParam()) == detail::attention_lanes::tiles;
    const auto plain = plain_attention<T>(c, q, k, v, is_rounded);
    const double rounding = 4 * static_cast<double>(std::numeric_limits<T>::epsilon());  // where the plain one is exact
    EXPECT_LE(largest_error(out.to_host(), expected.out), 2 * largest_error(plain.out, expected.out) + rounding);
    EXPECT_LE(largest_error(log_sum_exp.to_host(), expected.log_sum_exp),
              2 * largest_error(plain.log_sum_exp, expected.log_sum_exp) + rounding * (8 + 8 * c.magnitude));
    EXPECT_LE(largest_error(squares.to_host(), expected.squares),
              2 * largest_error(plain.squares, expected.squares) + rounding);
  }

  sycl::queue queue_{std::get<0>(GetParam()), sycl::property::queue::in_order{}};
};

INSTANTIATE_TEST_SUITE_P(devices, attention_test, attention_layouts(), attention_layout_name);
INSTANTIATE_TEST_SUITE_P(one_worker, attention_test,
                         testing::Combine(testing::ValuesIn(devices()),
                                          testing::Values(detail::attention_lanes::one_worker)));

/// bfloat16 on a matrix engine; where there is none, on what the device has instead.
class attention_tiles_test : public attention_test {
 protected:
  std::vector<float> run(const tensor<bfloat16>& q, const tensor<bfloat16>& k, const tensor<bfloat16>& v,
                         const attention_options& options = {}) {
    tensor<float> out(queue_, {q.shape()[0], q.shape()[1], q.shape()[2], v.shape()[3]});
    tensor<std::byte> scratchpad(queue_, {attention_scratchpad_size<bfloat16>(queue_, k.as<4>(), v.as<4>())});
    attention<bfloat16, float>(queue_, q.as<4>(), k.as<4>(), v.as<4>(), out.as<4>(), {}, scratchpad.span(), options)
        .wait_and_throw();
    return out.to_host();
  }
};
INSTANTIATE_TEST_SUITE_P(devices, attention_tiles_test,
                         testing::Combine(testing::ValuesIn(devices()),
                                          testing::Values(detail::attention_lanes::tiles)));

TEST_P(attention_tiles_test, agrees_with_f64_as_well_as_plain_bfloat16) {
  for (const std::int64_t s : {1, 2, 13, 31, 33, 100, 257, 600}) check<bfloat16, float>({1, 2, s, s, 17, 5});
  check<bfloat16, float>({2, 3, 40, 300, 64, 64});
  check<bfloat16, float>({1, 1, 300, 40, 3, 70});
  check<bfloat16, float>({1, 1, 5, 40, 512, 512});
  check<bfloat16, float>({2, 2, 70, 70, 16, 24, true});
  check<bfloat16, float>({1, 2, 20, 550, 16, 24, true});
  check<bfloat16, float>({1, 2, 50, 20, 16, 24, true});
  check<bfloat16, float>({4, 1, 30, 590, 8, 8, false, {590, 1, 259, 0}});
  check<bfloat16, float>({2, 1, 65, 65, 8, 8, true, {65, 40}});
  check<bfloat16, float>({1, 1, 40, 40, 16, 8, false, {}, 1e4});
}

TEST_P(attention_tiles_test, scores_may_rise_far_above_those_of_the_first_block) {
  constexpr std::int64_t keys = 1000;
  std::vector<bfloat16> q{bfloat16(100.f)}, k, v;
  for (std::int64_t j = 0; j < keys; ++j) {
    k.emplace_back(static_cast<float>(j / 100));  // scores 0, 100, ... 900: all but the last hundred vanish
    v.emplace_back(j >= 900 ? 3.f : -5.f);
  }
  const std::vector<float> out =
      run(tensor<bfloat16>(queue_, {1, 1, 1, 1}, q), tensor<bfloat16>(queue_, {1, 1, keys, 1}, k),
          tensor<bfloat16>(queue_, {1, 1, keys, 1}, v));
  EXPECT_NEAR(out[0], 3, 1e-3);  // scores of 900 are rounded to 1e-4
}

TEST_P(attention_tiles_test, nan_in_padding_is_not_seen_and_elsewhere_stays_in_its_row) {
  constexpr std::int64_t s = 50, d = 8;
  std::vector<bfloat16> q, k, v;
  for (const float x : random_numbers<float>(s * d, 1)) q.emplace_back(x);
  k = v = q;
  const bfloat16 nan(std::numeric_limits<float>::quiet_NaN());
  for (std::int64_t i = 41 * d; i < s * d; ++i) k[static_cast<std::size_t>(i)] = v[static_cast<std::size_t>(i)] = nan;
  q[3 * d] = nan;
  const tensor<std::int64_t> lengths(queue_, {1}, std::vector<std::int64_t>{41});
  const std::vector<float> out =
      run(tensor<bfloat16>(queue_, {1, 1, s, d}, q), tensor<bfloat16>(queue_, {1, 1, s, d}, k),
          tensor<bfloat16>(queue_, {1, 1, s, d}, v), {.lengths = lengths.as<1>()});
  for (std::size_t i = 0; i < out.size(); ++i) ASSERT_EQ(std::isnan(out[i]), i / d == 3) << i;
}

TEST_P(attention_tiles_test, takes_any_strides) {
  constexpr std::int64_t batch = 2, tokens = 70, heads = 3, d = 40;
  const std::vector<std::int64_t> shape{batch, heads, tokens, d};
  std::vector<bfloat16> dense, interleaved(static_cast<std::size_t>(batch * tokens * heads * d));
  for (const float x : random_numbers<float>(batch * tokens * heads * d, 1)) dense.emplace_back(x);
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(dense.size()); ++i) {  // -> (d, batch, tokens, heads)
    const std::int64_t token = i / d % tokens, head = i / d / tokens % heads, b = i / d / tokens / heads;
    interleaved[static_cast<std::size_t>(((i % d * batch + b) * tokens + token) * heads + head)] =
        dense[static_cast<std::size_t>(i)];
  }
  const tensor<bfloat16> x(queue_, shape, dense), y(queue_, {batch * tokens * heads * d}, interleaved);
  const view<const bfloat16, 4> strided{
      y.data(), {batch, heads, tokens, d}, {tokens * heads, 1, heads, batch * tokens * heads}};
  tensor<float> out(queue_, {d, batch * heads * tokens});
  const view<float, 4> strided_out{
      out.data(), {batch, heads, tokens, d}, {heads * tokens, tokens, 1, batch * heads * tokens}};
  tensor<std::byte> scratchpad(queue_, {attention_scratchpad_size<bfloat16>(queue_, strided, strided)});
  attention<bfloat16, float>(queue_, strided, strided, strided, strided_out, {}, scratchpad.span()).wait_and_throw();
  const std::vector<float> expected = run(x, x, x), got = out.to_host();
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(expected.size()); ++i) {
    ASSERT_EQ(got[static_cast<std::size_t>(i % d * batch * heads * tokens + i / d)],
              expected[static_cast<std::size_t>(i)]);
  }
}

TEST_P(attention_test, agrees_with_f64_at_odd_sizes) {
  for (const std::int64_t s : {1, 2, 13, 31, 33, 100, 257}) check<float, float>({1, 2, s, s, 17, 5});
  check<float, float>({2, 3, 40, 300, 64, 64});
  check<float, float>({1, 1, 300, 40, 3, 70});
  check<float, float>({1, 1, 30, 600, 1, 1});
  check<double, double>({2, 1, 37, 530, 20, 33});
}

TEST_P(attention_test, masks_by_causality_and_by_length) {
  check<float, float>({2, 2, 70, 70, 16, 24, true});
  check<float, float>({1, 2, 20, 50, 16, 24, true});
  check<float, float>({3, 1, 30, 290, 8, 8, false, {290, 1, 259}});
  check<float, float>({2, 1, 65, 65, 8, 8, true, {65, 40}});
  check<double, double>({2, 1, 65, 65, 8, 8, true, {65, 40}});
}

TEST_P(attention_test, takes_bfloat16_and_sums_in_float) {
  check<bfloat16, float>({1, 2, 67, 131, 64, 48});
  check<bfloat16, float>({2, 1, 33, 33, 9, 7, true});
}

TEST_P(attention_test, huge_logits_and_large_heads_are_no_problem) {
  check<float, float>({1, 1, 40, 40, 16, 8, false, {}, 1e4});
  check<float, float>({1, 1, 5, 40, 512, 512});
  check<float, float>({1, 1, 5, 40, 300, 2});
}

/// One head with every result on the host, for the special cases.
struct one_head {
  std::vector<float> out, log_sum_exp;
};

class attention_special : public attention_test {
 protected:
  one_head run(const std::vector<float>& q, const std::vector<float>& k, const std::vector<float>& v, std::int64_t d,
               const attention_options& options = {}) {
    const auto rows = [&](const std::vector<float>& x) { return static_cast<std::int64_t>(x.size()) / d; };
    const tensor<float> q_device(queue_, {1, 1, rows(q), d}, q), k_device(queue_, {1, 1, rows(k), d}, k);
    const tensor<float> v_device(queue_, {1, 1, rows(v), d}, v);
    tensor<float> out(queue_, {1, 1, rows(q), d}), log_sum_exp(queue_, {1, 1, rows(q)});
    tensor<std::byte> scratchpad(queue_,
                                 {attention_scratchpad_size<float>(queue_, k_device.as<4>(), v_device.as<4>())});
    attention<float, float>(queue_, q_device.as<4>(), k_device.as<4>(), v_device.as<4>(), out.as<4>(),
                            {log_sum_exp.as<3>(), {}}, scratchpad.span(), options)
        .wait_and_throw();
    return {out.to_host(), log_sum_exp.to_host()};
  }
};
INSTANTIATE_TEST_SUITE_P(devices, attention_special,
                         testing::Combine(testing::ValuesIn(devices()),
                                          testing::Values(detail::attention_lanes::vectors)));

TEST_P(attention_special, a_query_that_sees_nothing_gets_zeros) {
  const tensor<std::int64_t> lengths(queue_, {1}, std::vector<std::int64_t>{0});
  const one_head masked = run({1, 2}, {3, 4}, {5, 6}, 1, {.lengths = lengths.as<1>()});
  EXPECT_EQ(masked.out, (std::vector<float>{0, 0}));
  EXPECT_EQ(masked.log_sum_exp, std::vector<float>(2, -std::numeric_limits<float>::infinity()));
  const one_head causal = run({1, 2, 3}, {1}, {7}, 1, {.causal = true});  // only the last query sees the one key
  EXPECT_EQ(causal.out, (std::vector<float>{0, 0, 7}));
  const one_head no_keys = run({1, 2}, {}, {}, 1);
  EXPECT_EQ(no_keys.out, (std::vector<float>{0, 0}));
}

TEST_P(attention_special, nan_in_a_query_stays_in_its_row) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const one_head result = run({1, nan, 2}, {1, 2}, {3, 4}, 1);
  EXPECT_FALSE(std::isnan(result.out[0]));
  EXPECT_TRUE(std::isnan(result.out[1]));
  EXPECT_FALSE(std::isnan(result.out[2]));
}

TEST_P(attention_special, is_the_same_to_the_bit_in_every_run) {
  const auto q = random_numbers<float>(300 * 8, 1), k = random_numbers<float>(500 * 8, 2),
             v = random_numbers<float>(500 * 8, 3);
  const one_head first = run(q, k, v, 8);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(run(q, k, v, 8).out, first.out);
}

TEST_P(attention_special, takes_heads_that_are_interleaved_with_tokens) {
  constexpr std::int64_t tokens = 50, heads = 3, d = 8;  // (tokens, heads, d), as a model's projection writes it
  const auto x = random_numbers<float>(tokens * heads * d, 4);
  const tensor<float> x_device(queue_, {1, tokens, heads, d}, x);
  tensor<float> out(queue_, {1, tokens, heads, d});
  const view<const float, 4> by_heads{x_device.data(), {1, heads, tokens, d}, {0, d, heads * d, 1}};
  const view<float, 4> out_by_heads{out.data(), {1, heads, tokens, d}, {0, d, heads * d, 1}};
  tensor<std::byte> scratchpad(queue_, {attention_scratchpad_size<float>(queue_, by_heads, by_heads)});
  attention<float, float>(queue_, by_heads, by_heads, by_heads, out_by_heads, {}, scratchpad.span()).wait_and_throw();
  for (std::int64_t h = 0; h < heads; ++h) {
    std::vector<float> head;
    for (std::int64_t i = 0; i < tokens * d; ++i) {
      head.push_back(x[static_cast<std::size_t>((i / d * heads + h) * d + i % d)]);
    }
    const std::vector<float> expected = run(head, head, head, d).out, got = out.to_host();
    for (std::int64_t i = 0; i < tokens * d; ++i) {
      ASSERT_EQ(got[static_cast<std::size_t>((i / d * heads + h) * d + i % d)], expected[static_cast<std::size_t>(i)]);
    }
  }
}

TEST_P(attention_special, refuses_shapes_that_do_not_fit_and_small_scratchpads) {
  tensor<float> x(queue_, {1, 2, 4, 8}), narrow(queue_, {1, 2, 4, 7}), out(queue_, {1, 2, 4, 8});
  tensor<std::byte> scratchpad(queue_, {attention_scratchpad_size<float>(queue_, x.as<4>(), x.as<4>())});
  const std::span<std::byte> enough = scratchpad.span();
  const auto message = [&](view<const float, 4> q, view<const float, 4> k, std::span<std::byte> memory) {
    return message_of<invalid_argument>(
        [&] { attention<float, float>(queue_, q, k, x.as<4>(), out.as<4>(), {}, memory); });
  };
  EXPECT_EQ(
      message(narrow.as<4>(), x.as<4>(), enough),
      "attention: dimension 3 of q (1, 2, 4, 7) with strides (56, 28, 7, 1) differs from dimension 3 of k (1, 2, 4, "
      "8) with strides (64, 32, 8, 1)");
  EXPECT_NE(message(x.as<4>(), x.as<4>(), enough.first(100)).find("scratchpad holds 100 bytes"), std::string::npos);
}

}  // namespace
}  // namespace nullscope::test

#include <nullscope/effective_attention.hpp>
#include <nullscope/svd.hpp>

#include "attention_shapes.hpp"
#include "effective_attention_reference.hpp"
#include "team_shape.hpp"

namespace nullscope::test {
namespace {

constexpr double bound = 10;  // of a scaled residual

template <class T>
effective_attention_tensors<T> compute(sycl::queue& queue, const head_data<T>& data, const head_shape& s) {
  effective_attention_options options;
  options.causal = s.causal;
  const tensor<T> q(queue, {s.heads, s.queries, s.dk}, data.q), k(queue, {s.heads, s.keys, s.dk}, data.k),
      v(queue, {s.heads, s.keys, s.dv}, data.v);
  return effective_attention<T>(queue, q, k, v, s.d == 0 ? tensor<T>() : tensor<T>(queue, {s.heads, s.dv, s.d}, data.h),
                                options);
}

/// Rows [head * count, (head + 1) * count) of a host copy.
template <class T>
std::vector<T> part_of(const std::vector<T>& all, std::int64_t head, std::int64_t count) {
  return {all.begin() + head * count, all.begin() + (head + 1) * count};
}

template <class T>
void check_shape(sycl::queue& queue, const head_shape& s) {
  const head_data<T> data = make_data<T>(s);
  const effective_attention_tensors<T> result = compute(queue, data, s);
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

class effective_attention_test : public device_test {
 protected:
  ~effective_attention_test() override {
    detail::force_attention_lanes(std::nullopt);
    detail::force_team_shape(std::nullopt);
  }
};
INSTANTIATE_TEST_SUITE_P(devices, effective_attention_test, testing::ValuesIn(devices()), device_name);

TEST_P(effective_attention_test, agrees_with_the_formulas_in_float) {
  for (const head_shape& s : shapes) check_shape<float>(queue_, s);
}

TEST_P(effective_attention_test, agrees_with_the_formulas_in_double) {
  if (!has_fp64()) GTEST_SKIP() << "no fp64";
  for (const head_shape& s : shapes) check_shape<double>(queue_, s);
}

TEST_P(effective_attention_test, agrees_with_the_formulas_in_the_layout_of_gpus) {
  detail::force_attention_lanes(detail::attention_lanes::work_items);
  detail::force_team_shape(detail::team_shape::group_32);
  for (const head_shape& s : {shapes[1], shapes[2], shapes[4]}) check_shape<float>(queue_, s);
}

TEST_P(effective_attention_test, correlates_attention_that_is_nearly_uniform) {
  const head_shape s{2, 128, 128, 8, 4, 8};
  const head_data<float> data = make_data<float>(s, 0.02);  // weights differ by a percent
  const auto result = compute(queue_, data, s);
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
    const auto result = compute(queue_, data, s);
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
  EXPECT_TRUE(std::isnan(compute(queue_, make_data<float>(one_token), one_token).summary[0].pearson));
  const auto result = compute(queue_, make_data<float>(uniform, 0), uniform);
  EXPECT_TRUE(std::isnan(result.summary[0].pearson));
  EXPECT_FLOAT_EQ(result.summary[0].raw_norm, 1);
}

TEST_P(effective_attention_test, correlation_is_one_where_the_null_space_is_empty) {
  const head_shape s{2, 16, 16, 8, 32, 32};
  for (const auto& summary : compute(queue_, make_data<float>(s), s).summary) {
    EXPECT_NEAR(summary.pearson, 1, 1e-5);
    EXPECT_LE(summary.pearson, 1);
    EXPECT_EQ(summary.null_norm, 0);
  }
}

TEST_P(effective_attention_test, gives_dense_parts_and_tiles_of_them) {
  const head_shape s{2, 37, 37, 8, 5, 12, true};
  const head_data<float> data = make_data<float>(s);
  auto result = compute(queue_, data, s);
  const tensor<float> q(queue_, {2, 37, 8}, data.q), k(queue_, {2, 37, 8}, data.k);
  const attention_factors<float> factors{q.as<3>(), k.as<3>(), result.log_sum_exp.as<2>(), result.p.as<3>(),
                                         result.u.as<3>()};
  effective_attention_options options;
  options.causal = true;
  const auto part = [&](attention_matrix which, std::int64_t row, std::int64_t column, std::int64_t rows,
                        std::int64_t columns) {
    tensor<float> out(queue_, {2, rows, columns});
    attention_part<float>(queue_, which, factors, row, column, out.as<3>(), options).wait_and_throw();
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
  tensor<float> beyond(queue_, {2, 7, 20});
  EXPECT_NE(message_of<invalid_argument>([&] {
              attention_part<float>(queue_, attention_matrix::raw, factors, 31, 3, beyond.as<3>(), options);
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
  const tensor<float> h_device(queue_, {heads, dv, d}, h);
  const auto padded =
      effective_attention<float>(queue_, tensor<float>(queue_, {batch, heads, tokens, dk}, q),
                                 tensor<float>(queue_, {batch, heads, tokens, dk}, k),
                                 tensor<float>(queue_, {batch, heads, tokens, dv}, v), h_device, {}, lengths);
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t length = lengths[static_cast<std::size_t>(b)];
    const auto cut = [&](const std::vector<float>& x, std::int64_t width) {
      std::vector<float> rows;
      for (std::int64_t head = 0; head < heads; ++head) {
        const auto first = x.begin() + (b * heads + head) * tokens * width;
        rows.insert(rows.end(), first, first + length * width);
      }
      return tensor<float>(queue_, {heads, length, width}, rows);
    };
    const auto alone = effective_attention<float>(queue_, cut(q, dk), cut(k, dk), cut(v, dv), h_device);
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
    compute(queue_, data, s);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const computation_error& error) {
    EXPECT_EQ(error.failed_batch_ids(), std::vector<std::int64_t>{1});
  }
}

TEST_P(effective_attention_test, the_summary_of_a_head_with_nan_in_v_has_the_norm_of_its_weights_alone) {
  const head_shape s{2, 20, 20, 4, 4, 0};
  head_data<float> data = make_data<float>(s);
  const auto expected = compute(queue_, data, s);
  data.v[5] = NAN;  // of the first head
  const tensor<float> q(queue_, {2, 20, 4}, data.q), k(queue_, {2, 20, 4}, data.k), v(queue_, {2, 20, 4}, data.v);
  tensor<float> p(queue_, {2, 20, 4}), u(queue_, {2, 20, 4}), values(queue_, {2, 4}), log_sum_exp(queue_, {2, 20}),
      raw(queue_, {2, 20}), effective(queue_, {2, 20});
  tensor<std::int64_t> rank(queue_, {2});
  tensor<std::int32_t> status(queue_, {2});
  tensor<effective_attention_summary<float>> summary(queue_, {2});
  const attention_heads<float> heads{q.as<3>(), k.as<3>(), v.as<3>()};
  tensor<std::byte> scratchpad(queue_, {effective_attention_scratchpad_size<float>(queue_, heads)});
  effective_attention<float>(queue_, heads,
                             {p.as<3>(), u.as<3>(), values.as<2>(), rank.as<1>(), status.as<1>(), log_sum_exp.as<2>(),
                              summary.as<1>(), raw.as<2>(), effective.as<2>()},
                             scratchpad.span())
      .wait_and_throw();
  const auto got = summary.to_host();
  for (const float x : {got[0].pearson, got[0].effective_norm, got[0].null_norm, effective.to_host()[3]}) {
    EXPECT_TRUE(std::isnan(x)) << x;
  }
  EXPECT_EQ(got[0].raw_norm, expected.summary[0].raw_norm);
  EXPECT_EQ(got[1].pearson, expected.summary[1].pearson);
  EXPECT_EQ(raw.to_host(), expected.received_raw.to_host());
}

TEST_P(effective_attention_test, is_the_same_to_the_bit_in_every_run) {
  const head_shape s{4, 200, 200, 16, 16, 32};
  const head_data<float> data = make_data<float>(s);
  const auto first = compute(queue_, data, s), second = compute(queue_, data, s);
  EXPECT_EQ(first.p.to_host(), second.p.to_host());
  EXPECT_EQ(first.received_raw.to_host(), second.received_raw.to_host());
  EXPECT_EQ(first.summary[0].pearson, second.summary[0].pearson);
}

TEST_P(effective_attention_test, waits_for_its_dependencies) {
  sycl::queue queue(GetParam());  // out of order
  const head_shape s{2, 100, 100, 16, 8, 24};
  const head_data<float> data = make_data<float>(s);
  const auto expected = compute(queue_, data, s);
  const tensor<float> source(queue, {2, 100, 16}, data.q), k(queue, {2, 100, 16}, data.k),
      v(queue, {2, 100, 8}, data.v), h(queue, {2, 8, 24}, data.h);
  tensor<float> q(queue, {2, 100, 16}), p(queue, {2, 100, 8}), u(queue, {2, 100, 8}), values(queue, {2, 8}),
      log_sum_exp(queue, {2, 100});
  tensor<std::int64_t> rank(queue, {2});
  tensor<std::int32_t> status(queue, {2});
  const attention_heads<float> heads{std::as_const(q).as<3>(), k.as<3>(), v.as<3>(), h.as<3>()};
  tensor<std::byte> scratchpad(queue, {effective_attention_scratchpad_size<float>(queue, heads)});
  const effective_attention_results<float> results{p.as<3>(),    u.as<3>(),      values.as<2>(),
                                                   rank.as<1>(), status.as<1>(), log_sum_exp.as<2>()};
  for (int run = 0; run < 5; ++run) {
    const auto bytes = static_cast<std::size_t>(q.size()) * sizeof(float);
    queue.fill(q.data(), NAN, static_cast<std::size_t>(q.size())).wait();
    tensor<float> slow(queue, {1 << 24});
    const sycl::event busy = queue.fill(slow.data(), 1.0f, static_cast<std::size_t>(slow.size()));
    const sycl::event ready = queue.memcpy(q.data(), source.data(), bytes, busy);
    effective_attention<float>(queue, heads, results, scratchpad.span(), {}, {ready}).wait_and_throw();
    ASSERT_EQ(p.to_host(), expected.p.to_host());
  }
}

TEST_P(effective_attention_test, refuses_shapes_that_do_not_fit) {
  const tensor<float> q(queue_, {2, 4, 8}), k(queue_, {2, 5, 8}), v(queue_, {2, 5, 3}), h(queue_, {2, 4, 6});
  const auto message = [&](auto call) { return message_of<invalid_argument>(call); };
  EXPECT_NE(
      message([&] { effective_attention<float>(queue_, q, k, v, h); })
          .find("effective_attention: dimension 2 of v (2, 5, 3) with strides (15, 3, 1) differs from dimension 1 "
                "of h (2, 4, 6)"),
      std::string::npos);
  EXPECT_NE(message([&] { effective_attention<float>(queue_, q, k, v, {}, {}, {4}); }).find("differ in their tokens"),
            std::string::npos);
  EXPECT_NE(message([&] {
              effective_attention<float>(queue_, k, k, v, {}, {}, {6});
            }).find("a length of 6 in sequences of 5 tokens"),
            std::string::npos);
  EXPECT_NE(message([&] {
              effective_attention<float>(queue_, k, k, v, {}, {}, {1, 2});
            }).find("2 lengths for 1 sequence"),
            std::string::npos);
  EXPECT_NE(message([&] {
              effective_attention<float>(queue_, tensor<float>(queue_, {2, 3}), k, v);
            }).find("q [2, 3] should be [batch, heads, S, d] or [heads, S, d]"),
            std::string::npos);
  EXPECT_EQ(message([&] {
              effective_attention<float>(queue_, q, k, v, tensor<float>(queue_, {3, 6}));
            }),
            "effective_attention: h [3, 6] should be [heads, d_v, d]");
  EXPECT_NE(message([&] {
              effective_attention<float>(queue_, q, k, v, tensor<float>(queue_, {2, 3, 0}));  // no T = v by mistake
            }).find("or h has no columns"),
            std::string::npos);
  const tensor<float> wide(queue_, {1, 600, 513});
  EXPECT_NE(message([&] {
              effective_attention<float>(queue_, wide, wide, tensor<float>(queue_, {1, 600, 3}));
            }).find("effective_attention: q (1, 600, 513) with strides (307800, 513, 1) has heads of more than 512"),
            std::string::npos);
  EXPECT_NE(message([&] {
              const tensor<float> narrow(queue_, {1, 600, 4});
              effective_attention<float>(queue_, narrow, narrow, wide);
            }).find("and h give a basis of 513 columns, more than 512"),
            std::string::npos);
}

TEST_P(effective_attention_test, refuses_a_basis_whose_columns_are_no_neighbours_before_it_writes) {
  const tensor<float> q(queue_, {1, 1, 8}), k(queue_, {1, 50, 8}), v(queue_, {1, 50, 4});
  tensor<float> p(queue_, {1, 1, 4}), u(queue_, {1, 4, 50}, std::vector<float>(200, 7)), s(queue_, {1, 4}),
      log_sum_exp(queue_, {1, 1});
  tensor<std::int64_t> rank(queue_, {1});
  tensor<std::int32_t> status(queue_, {1});
  const attention_heads<float> heads{q.as<3>(), k.as<3>(), v.as<3>(), {}};
  tensor<std::byte> scratchpad(queue_, {effective_attention_scratchpad_size<float>(queue_, heads)});
  const effective_attention_results<float> results{p.as<3>(),    transposed(u.as<3>()), s.as<2>(),
                                                   rank.as<1>(), status.as<1>(),        log_sum_exp.as<2>()};
  EXPECT_EQ(
      message_of<invalid_argument>([&] { effective_attention<float>(queue_, heads, results, scratchpad.span()); }),
      "effective_attention: u (1, 50, 4) with strides (200, 1, 50) has columns that are no neighbours");
  EXPECT_EQ(u.to_host(), std::vector<float>(200, 7));
}

TEST_P(effective_attention_test, the_size_of_the_scratchpad_needs_no_memory) {
  const tensor<float> q(queue_, {2, 40, 8}), v(queue_, {2, 40, 16}), h(queue_, {2, 16, 300});
  attention_heads<float> heads{q.as<3>(), q.as<3>(), v.as<3>(), h.as<3>()};
  const std::int64_t bytes = effective_attention_scratchpad_size<float>(queue_, heads);
  for (view<const float, 3>* x : {&heads.q, &heads.k, &heads.v, &heads.h}) x->data = nullptr;
  EXPECT_EQ(effective_attention_scratchpad_size<float>(queue_, heads), bytes);
  heads.h = {};  // T = v
  EXPECT_LT(effective_attention_scratchpad_size<float>(queue_, heads), bytes);
}

}  // namespace
}  // namespace nullscope::test

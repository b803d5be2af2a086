/// range_basis: rank, singular values and range, and its contract.
#include <fmt/format.h>

#include <nullscope/linalg/svd.hpp>

#include "tests/null_space/null_space_support.hpp"

namespace nullscope::test {
namespace {

INSTANTIATE_TEST_SUITE_P(devices, null_space_test, testing::ValuesIn(devices()), device_name);

template <class T>
void check_factored(context& ctx, const heads& s, const std::vector<std::int64_t>& ranks) {
  const factored<T> f = make_heads<T>(s, ranks, 5);
  const tensor<T> v(ctx, {s.batch, s.tokens, s.value_width}, f.v), h(ctx, {s.batch, s.value_width, s.model_width}, f.h);
  const range_tensors<T> result = range_basis(ctx, v, h);
  const std::int64_t k = s.columns();
  const std::vector<T> basis = result.basis.to_host(), values = result.s.to_host();
  ASSERT_EQ(result.basis.shape(), (std::vector<std::int64_t>{s.batch, s.tokens, k + 1}));
  for (std::int64_t b = 0; b < s.batch; ++b) {
    const std::string what =
        fmt::format("head {} of ({}, {}, {}, {})", b, s.batch, s.tokens, s.value_width, s.model_width);
    const std::int64_t rank = result.rank[static_cast<std::size_t>(b)];
    EXPECT_EQ(rank, std::min(k, ranks[static_cast<std::size_t>(b)])) << what;
    EXPECT_EQ(result.null_dimension[static_cast<std::size_t>(b)], s.tokens - rank) << what;
    const T* u = basis.data() + b * s.tokens * (k + 1);
    const matrix t = product(f.v.data() + b * s.tokens * s.value_width, f.h.data() + b * s.value_width * s.model_width,
                             s.tokens, s.value_width, s.model_width);
    EXPECT_LT(orthogonality(u, s.tokens, k + 1, rank), bound) << what;
    EXPECT_LT(outside(t, u, s.tokens, k + 1, s.model_width), bound) << what;
    // The columns of U^T T have the singular values as their lengths, and |T|_F^2 is the sum of their squares.
    const matrix rotated = product(transpose(u, s.tokens, k + 1).data(), t.data(), k + 1, s.tokens, s.model_width);
    double largest = static_cast<double>(values[static_cast<std::size_t>(b * k)]), worst = 0, squares = 0;
    for (std::int64_t j = 0; j < k; ++j) {
      const auto begin = rotated.begin() + j * s.model_width;
      const double value = static_cast<double>(values[static_cast<std::size_t>(b * k + j)]);
      squares += value * value;
      if (j < rank) worst = std::max(worst, std::abs(value - norm({begin, begin + s.model_width})));
      if (j > 0) {
        EXPECT_LE(value, static_cast<double>(values[static_cast<std::size_t>(b * k + j - 1)])) << what;
      }
    }
    const double unit = static_cast<double>(std::max(s.value_width, k)) * eps<T>;
    EXPECT_LE(worst, bound * largest * unit) << what;
    EXPECT_NEAR(std::sqrt(squares), norm(t), bound * norm(t) * unit) << what;
  }
}

TEST_P(null_space_test, finds_rank_values_and_range_of_factored_heads) {
  check_factored<float>(ctx_, {5, 100, 16, 48}, {16, 7, 0, 1, 15});
  check_factored<float>(ctx_, {2, 200, 24, 20}, {24, 9});  // d < d_v
  check_factored<float>(ctx_, {2, 10, 16, 40}, {16, 3});   // S < d_v: S x S
  check_factored<float>(ctx_, {1, 1, 1, 1}, {1});
  check_factored<float>(ctx_, {3, 33, 1, 5}, {1, 1, 0});
  check_factored<float>(ctx_, {2, 1000, 64, 96}, {64, 40});
}

TEST_P(null_space_test, works_in_double) {
  if (!has_fp64()) GTEST_SKIP();
  check_factored<double>(ctx_, {4, 90, 12, 30}, {12, 5, 0, 11});
}

TEST_P(null_space_test, finds_rank_and_range_of_a_plain_matrix) {
  for (const auto& [tokens, width] :
       {std::pair<std::int64_t, std::int64_t>{80, 20}, {20, 80}, {30, 30}, {1, 4}, {4, 1}}) {
    for (const std::int64_t rank : {std::int64_t{0}, std::int64_t{1}, std::min(tokens, width)}) {
      const factored<float> f = make_heads<float>({1, tokens, width, 1}, {rank}, 9);
      const range_tensors<float> result = range_basis(ctx_, tensor<float>(ctx_, {tokens, width}, f.v));
      const std::int64_t k = std::min(tokens, width);
      const std::vector<float> u = result.basis.to_host();
      EXPECT_EQ(result.rank[0], rank) << tokens << " x " << width;
      EXPECT_LT(orthogonality(u.data(), tokens, k + 1, rank), bound);
      EXPECT_LT(outside(matrix(f.v.begin(), f.v.end()), u.data(), tokens, k + 1, width), bound)
          << tokens << " x " << width;
    }
  }
}

TEST_P(null_space_test, counts_singular_values_by_the_tolerance) {
  // T = diag(1, 1e-2, 1e-4, 1e-9): by default the last one does not count
  std::vector<float> t(16, 0.0f);
  t[0] = 1, t[5] = 1e-2f, t[10] = 1e-4f, t[15] = 1e-9f;
  const tensor<float> x(ctx_, {4, 4}, t);
  EXPECT_EQ(range_basis(ctx_, x).rank[0], 3);
  EXPECT_EQ(range_basis(ctx_, x, {.tolerance = {.relative = 1e-3}}).rank[0], 2);
  EXPECT_EQ(range_basis(ctx_, x, {.tolerance = {.relative = 0, .absolute = 0.5}}).rank[0], 1);
  EXPECT_EQ(range_basis(ctx_, x, {.tolerance = {.relative = 0}}).rank[0], 4);
  EXPECT_EQ(range_basis(ctx_, x, {.tolerance = {.absolute = 2}}).rank[0], 0);
}

/// In float max(S, d) eps would be 0.016 here: above a singular value that is not a rounding error.
TEST_P(null_space_test, the_default_tolerance_does_not_grow_with_long_sequences) {
  constexpr std::int64_t tokens = std::int64_t{1} << 17, width = 4;
  std::vector<float> v = random_numbers<float>(tokens * width, 3);
  for (std::int64_t i = 0; i < tokens; ++i) {
    float* const row = v.data() + i * width;
    row[2] *= 0.002f;              // a small singular value, but no rounding error
    row[3] = row[0] + row[1] / 3;  // nothing new but its rounding
  }
  const auto result = range_basis(ctx_, tensor<float>(ctx_, {tokens, width}, v));
  EXPECT_EQ(result.rank[0], 3);
  const std::vector<float> values = result.s.to_host();
  EXPECT_LT(values[3], 10 * eps<float> * values[0]);
  EXPECT_GT(values[2], 4096 * eps<float> * values[0]);
}

TEST_P(null_space_test, survives_extreme_scales) {
  for (const float scale : {1e-15f, 1e15f}) {
    factored<float> f = make_heads<float>({1, 60, 8, 20}, {5}, 21);
    for (float& x : f.v) x *= scale;
    for (float& x : f.h) x *= scale;
    const range_tensors<float> result =
        range_basis(ctx_, tensor<float>(ctx_, {60, 8}, f.v), tensor<float>(ctx_, {8, 20}, f.h));
    EXPECT_EQ(result.rank[0], 5) << scale;
    EXPECT_LT(orthogonality(result.basis.to_host().data(), 60, 9, 5), bound);
  }
}

/// The function on views, with everything that the tests below vary.
struct low_level {
  low_level(const sycl::queue& q, const heads& s, const factored<float>& f)
      : v(q, {s.batch, s.tokens, s.value_width}, f.v),
        h(q, {s.batch, s.value_width, s.model_width}, f.h),
        u(q, {s.batch, s.tokens, s.columns()}),
        s(q, {s.batch, s.columns()}),
        rank(q, {s.batch}),
        status(q, {s.batch}) {}

  range_results<float> results() { return {u, s, rank, status}; }
  sycl::event run(context& ctx, const events& dependencies = {}) {
    return range_basis(ctx, {v, h}, results(), {}, dependencies);
  }

  tensor<float> v, h, u, s;
  tensor<std::int64_t> rank;
  tensor<std::int32_t> status;
};

TEST_P(null_space_test, nan_stays_in_its_head) {
  const heads s{4, 60, 8, 12};
  factored<float> f = make_heads<float>(s, {8, 8, 5, 8}, 71);
  low_level clean(queue_, s, f);
  clean.run(ctx_).wait();
  f.v[static_cast<std::size_t>(1 * 480 + 100)] = std::numeric_limits<float>::quiet_NaN();
  f.h[static_cast<std::size_t>(3 * 96 + 5)] = std::numeric_limits<float>::infinity();
  low_level dirty(queue_, s, f);
  dirty.run(ctx_).wait();
  EXPECT_EQ(clean.rank.to_host(), (std::vector<std::int64_t>{8, 8, 5, 8}));
  EXPECT_EQ(dirty.rank.to_host(), (std::vector<std::int64_t>{8, -1, 5, -1}));
  EXPECT_EQ(dirty.status.to_host(),
            (std::vector<std::int32_t>{svd_converged, svd_not_finite, svd_converged, svd_not_finite}));
  const auto expect_nan_in_bad_heads = [](const std::vector<float>& expected, const std::vector<float>& got) {
    const std::size_t size = got.size() / 4;  // of a head
    for (std::size_t i = 0; i < got.size(); ++i) {
      const bool is_bad = i / size == 1 || i / size == 3;
      EXPECT_TRUE(is_bad ? std::isnan(got[i]) : got[i] == expected[i]) << "number " << i % size << " of " << i / size;
    }
  };
  expect_nan_in_bad_heads(clean.u.to_host(), dirty.u.to_host());
  expect_nan_in_bad_heads(clean.s.to_host(), dirty.s.to_host());
  try {
    range_basis(ctx_, dirty.v, dirty.h);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const computation_error& failure) {
    EXPECT_EQ(failure.failed_batch_ids(), (std::vector<std::int64_t>{1, 3}));
    EXPECT_EQ(std::string(failure.what()),
              "range_basis: 2 of 4 matrices hold NaN or infinity, overflow, or did not converge: 1, 3");
  }
}

TEST_P(null_space_test, a_head_whose_singular_value_overflows_is_an_error) {
  const tensor<float> t(ctx_, {1, 8, 8}, std::vector<float>(64, 3e38f));  // sigma is 8 times that
  EXPECT_EQ(message_of<computation_error>([&] { range_basis(ctx_, t); }),
            "range_basis: 1 of 1 matrices hold NaN or infinity, overflow, or did not converge: 0");
}

TEST_P(null_space_test, a_head_whose_singular_value_overflows_has_a_basis_of_nan) {
  for (const std::int64_t tokens : {std::int64_t{8}, std::int64_t{3}}) {  // with a QR before, and without
    const std::int64_t k = std::min<std::int64_t>(tokens, 4);
    std::vector<float> numbers = random_numbers<float>(2 * tokens * 4, 73);
    for (std::int64_t i = 0; i < tokens * 4; ++i)
      numbers[static_cast<std::size_t>(i)] = i / 4 % 2 == 0 ? 1.1e38f : -1.1e38f;
    const tensor<float> t(ctx_, {2, tokens, 4}, numbers);
    tensor<float> u(ctx_, {2, tokens, k}), s(ctx_, {2, k});
    tensor<std::int64_t> rank(ctx_, {2});
    tensor<std::int32_t> status(ctx_, {2});
    range_basis(ctx_, {t}, {.u = u, .s = s, .rank = rank, .status = status}).wait();
    EXPECT_EQ(rank.to_host(), (std::vector<std::int64_t>{-1, k}));
    const std::vector<float> basis = u.to_host();
    for (std::int64_t i = 0; i < 2 * tokens * k; ++i) {
      EXPECT_EQ(std::isnan(basis[static_cast<std::size_t>(i)]), i < tokens * k) << tokens << " tokens, number " << i;
    }
  }
}

TEST_P(null_space_test, a_column_of_v_whose_length_overflows_counts_as_infinity) {
  const heads s{1, 2, 1, 1};
  low_level d(queue_, s, {{3e38f, 3e38f}, {1e-10f}});  // T itself is (3e28, 3e28)
  d.run(ctx_).wait();
  EXPECT_EQ(d.status.to_host()[0], svd_not_finite);
  EXPECT_EQ(d.rank.to_host()[0], -1);
  EXPECT_TRUE(std::isnan(d.u.to_host()[0]));
}

TEST_P(null_space_test, one_projection_serves_the_whole_batch_and_bits_repeat) {
  const heads s{3, 64, 8, 12};
  factored<float> f = make_heads<float>(s, {8, 4, 8}, 81);
  for (std::int64_t i = 0; i < 2 * 96; ++i)
    f.h[static_cast<std::size_t>(96 + i)] = f.h[static_cast<std::size_t>(i % 96)];
  low_level each(queue_, s, f), shared(queue_, s, f);
  each.run(ctx_).wait();
  view<const float, 3> repeated = shared.h;
  repeated.stride[0] = 0;
  range_basis(ctx_, {shared.v, repeated}, shared.results()).wait();
  EXPECT_EQ(each.rank.to_host(), shared.rank.to_host());
  const std::vector<float> got = shared.s.to_host(), expected = each.s.to_host();
  EXPECT_LT(scaled_residual(got, std::vector<double>(expected.begin(), expected.end()), 8), bound);
  const std::vector<float> first = each.u.to_host();
  each.run(ctx_).wait();
  EXPECT_EQ(each.u.to_host(), first);
}

TEST_P(null_space_test, takes_heads_that_are_interleaved) {
  const heads s{4, 30, 8, 20};
  const factored<float> f = make_heads<float>(s, {8, 8, 2, 8}, 91);
  low_level packed(queue_, s, f), strided(queue_, s, f);
  packed.run(ctx_).wait();
  std::vector<float> tokens_first(f.v.size());  // (S, heads, d_v), as a projection of all heads gives it
  for (std::int64_t b = 0; b < 4; ++b) {
    for (std::int64_t i = 0; i < 30; ++i) {
      for (std::int64_t j = 0; j < 8; ++j) {
        tokens_first[static_cast<std::size_t>((i * 4 + b) * 8 + j)] =
            f.v[static_cast<std::size_t>((b * 30 + i) * 8 + j)];
      }
    }
  }
  strided.v.copy_from(tokens_first);
  const view<const float, 3> v{strided.v.data(), {4, 30, 8}, {8, 32, 1}};
  range_basis(ctx_, {v, strided.h}, strided.results()).wait();
  EXPECT_EQ(strided.u.to_host(), packed.u.to_host());
  EXPECT_EQ(strided.rank.to_host(), packed.rank.to_host());
}

TEST_P(null_space_test, honours_dependencies_and_takes_empty_batches) {
  sycl::queue out_of_order(GetParam());
  const heads s{2, 64, 8, 12};
  const factored<float> f = make_heads<float>(s, {8, 3}, 95);
  low_level expected(queue_, s, f), late(queue_, s, {std::vector<float>(f.v.size(), 0.0f), f.h});
  expected.run(ctx_).wait();
  tensor<float> large(ctx_, {1 << 24}), source(ctx_, {2, 64, 8}, f.v);
  sycl::event before;
  for (int i = 0; i < 8; ++i) before = out_of_order.fill(large.data(), float(i), 1 << 24, before);  // takes a while
  before = out_of_order.memcpy(late.v.data(), source.data(), f.v.size() * sizeof(float), before);
  context unordered(out_of_order);
  late.run(unordered, {before}).wait();
  EXPECT_EQ(late.u.to_host(), expected.u.to_host());
  EXPECT_EQ(late.rank.to_host(), expected.rank.to_host());
  EXPECT_TRUE(range_basis(ctx_, tensor<float>(ctx_, {0, 5, 3})).rank.empty());
  EXPECT_EQ(range_basis(ctx_, tensor<float>(ctx_, {2, 5, 0})).null_dimension, (std::vector<std::int64_t>{5, 5}));
}

TEST_P(null_space_test, refuses_what_it_cannot_take) {
  const heads s{2, 10, 4, 6};
  low_level d(queue_, s, make_heads<float>(s, {4, 4}, 99));
  const auto message = [&](view<const float, 3> h, const range_results<float>& results, rank_tolerance tolerance = {}) {
    return message_of<invalid_argument>([&] { range_basis(ctx_, {d.v, h}, results, tolerance); });
  };
  range_results<float> results = d.results();
  EXPECT_EQ(
      message(slice(d.h.as<3>(), 1, 0, 3), results),
      "range_basis: dimension 2 of v (2, 10, 4) with strides (40, 4, 1) differs from dimension 1 of h (2, 3, 6) with "
      "strides (24, 6, 1)");
  EXPECT_EQ(message(d.h, results, {.absolute = -1}),
            "range_basis: tolerances (relative -1, absolute -1) are NaN or negative");
  results.u = slice(results.u, 2, 0, 3);
  EXPECT_EQ(message(d.h, results), "range_basis: u (2, 10, 3) with strides (40, 4, 1) should be (2, 10, 4)");
  results = d.results();
  results.s = slice(results.s, 1, 0, 2);
  EXPECT_EQ(message(d.h, results), "range_basis: s (2, 2) with strides (4, 1) should be (2, 4)");
  tensor<std::byte> small(ctx_, {100});
  ctx_.use_workspace(small.span());
  const std::string too_small = message(d.h, d.results());
  ctx_.use_workspace({});
  EXPECT_EQ(too_small, fmt::format("range_basis: the workspace is too small, {} bytes are needed",
                                   required_workspace(ctx_, [&](context& ctx) { d.run(ctx); })));
  EXPECT_EQ(message_of<invalid_argument>([&] { range_basis(ctx_, tensor<float>(ctx_, {4})); }),
            "range_basis: t [4] is neither a matrix nor a batch of matrices");
  EXPECT_EQ(
      message_of<invalid_argument>([&] {
        range_basis(ctx_, tensor<float>(ctx_, {2, 5, 3}), tensor<float>(ctx_, {0, 0, 0}));  // not T = v
      }),
      "range_basis: dimension 0 of v (2, 5, 3) with strides (15, 3, 1) differs from dimension 0 of h (0, 0, 0) with "
      "strides (0, 0, 1)");
  tensor<float> rows(ctx_, {2, 3, 10}), n(ctx_, {2, 10, 9});
  EXPECT_EQ(message_of<invalid_argument>([&] {
              project(ctx_, {rows, slice(d.u.as<3>(), 1, 0, 9)}, rows, row_part::range);
            }),
            "project: dimension 1 of u (2, 9, 4) with strides (40, 4, 1) differs from dimension 2 of x (2, 3, 10) with "
            "strides (30, 10, 1)");
  EXPECT_EQ(message_of<invalid_argument>([&] { random_null_space_rows(ctx_, d.u, slice(rows.as<3>(), 1, 0, 2), {}); }),
            "random_null_space_rows: out (2, 2, 10) with strides (30, 10, 1) is not densely packed");
  EXPECT_EQ(
      message_of<invalid_argument>([&] {
        null_space_basis(ctx_, {d.u, d.rank}, n);
      }),
      "null_space_basis: dimension 2 of null_basis (2, 10, 9) with strides (90, 9, 1) differs from dimension 1 of u "
      "(2, 10, 4) with strides (40, 4, 1)");
  EXPECT_EQ(message_of<invalid_argument>([&] {
              append_ones(ctx_, d.rank, {d.u, slice(d.rank.as<1>(), 0, 0, 1)});
            }),
            "append_ones: dimension 0 of rank_with_ones (1) with strides (1) differs from dimension 0 of basis (2, 10, "
            "4) with strides (40, 4, 1)");
  EXPECT_EQ(message_of<invalid_argument>([&] {
              append_ones(ctx_, d.rank, {d.u, d.rank}, {.relative = NAN});
            }),
            "append_ones: tolerances (relative nan, absolute 0) are NaN or negative");
}

}  // namespace
}  // namespace nullscope::test

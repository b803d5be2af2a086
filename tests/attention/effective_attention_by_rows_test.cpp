/// Effective attention by rows against its definition, one prefix after the other, dense and in double.
#include <nullscope/attention/effective_attention.hpp>
#include <nullscope/null_space/null_space.hpp>

#include "lib/src/core/dispatch.hpp"
#include "tests/attention/effective_attention_reference.hpp"

namespace nullscope::test {
namespace {

constexpr double bound = 10;  // of a scaled residual

class effective_attention_by_rows_test : public device_test {};

template <class T>
struct by_rows {
  std::vector<T> p, u, effective, null_part, received_raw, received_effective;  // host copies
  std::vector<std::int64_t> rank;
  std::vector<effective_attention_summary<T>> summary;
  std::int64_t columns;
};

template <class T>
by_rows<T> compute(context& ctx, const head_data<T>& data, const head_shape& s,
                   const effective_attention_by_rows_options& options = {}) {
  const tensor<T> q(ctx, {s.heads, s.queries, s.dk}, data.q), k(ctx, {s.heads, s.keys, s.dk}, data.k),
      v(ctx, {s.heads, s.keys, s.dv}, data.v),
      h = s.d == 0 ? tensor<T>() : tensor<T>(ctx, {s.heads, s.dv, s.d}, data.h);
  const attention_heads<T> heads{q, k, v, h};
  const std::int64_t columns = heads.basis_columns();
  tensor<T> p(ctx, {s.heads, s.queries, columns}), u(ctx, {s.heads, s.keys, columns}), values(ctx, {s.heads, columns}),
      log_sum_exp(ctx, {s.heads, s.queries}), raw(ctx, {s.heads, s.keys}), effective(ctx, {s.heads, s.keys}),
      dense(ctx, {s.heads, s.queries, s.keys}), rest(ctx, {s.heads, s.queries, s.keys});
  tensor<std::int64_t> rank(ctx, {s.heads});
  tensor<std::int32_t> status(ctx, {s.heads});
  tensor<effective_attention_summary<T>> summary(ctx, {s.heads});
  effective_attention_by_rows(
      ctx, heads, effective_attention_results<T>{p, u, values, rank, status, log_sum_exp, summary, raw, effective},
      options)
      .wait_and_throw();
  const attention_factors<T> factors{q, k, log_sum_exp, p, u};
  attention_part(ctx, factors, dense, {.causal = true, .by_rows = true}).wait_and_throw();
  attention_part(ctx, factors, rest, {.matrix = attention_matrix::null_part, .causal = true, .by_rows = true})
      .wait_and_throw();
  return {p.to_host(),         u.to_host(),    dense.to_host(),   rest.to_host(), raw.to_host(),
          effective.to_host(), rank.to_host(), summary.to_host(), columns};
}

/// The first `keys` keys of one head.
template <class T>
head_data<T> prefix_of(const head_data<T>& data, const head_shape& s, std::int64_t head, std::int64_t keys) {
  const auto part = [](const std::vector<T>& x, std::int64_t first, std::int64_t count) {
    return std::vector<T>(x.begin() + first, x.begin() + first + count);
  };
  return {{}, {}, part(data.v, head * s.keys * s.dv, keys * s.dv), part(data.h, head * s.dv * s.d, s.dv * s.d)};
}

/// Row by row in double: the raw row times the projector of the range of the rows of T that it sees.
template <class T>
reference make_rows(const head_data<T>& data, const head_shape& s, std::int64_t head) {
  reference r;
  r.raw = weights(data, s, head);
  r.effective.assign(r.raw.size(), 0.0);
  r.received_raw.assign(static_cast<std::size_t>(s.keys), 0.0);
  r.received_effective = r.received_raw;
  matrix seen_raw, seen_effective;
  for (std::int64_t i = 0; i < s.queries; ++i) {
    const std::int64_t seen = std::min(s.keys, i + 1 + s.keys - s.queries);
    if (seen < 1) continue;
    head_shape prefix = s;
    prefix.heads = 1;
    prefix.keys = seen;
    const double* raw = r.raw.data() + i * s.keys;
    double* effective = r.effective.data() + i * s.keys;
    for (const matrix& u : range(prefix_of(data, s, head, seen), prefix, 0)) {
      double along = 0;
      for (std::size_t j = 0; j < u.size(); ++j) along += raw[j] * u[j];
      for (std::size_t j = 0; j < u.size(); ++j) effective[j] += along * u[j];
    }
    seen_raw.insert(seen_raw.end(), raw, raw + seen);
    seen_effective.insert(seen_effective.end(), effective, effective + seen);
    for (std::int64_t j = 0; j < seen; ++j) {
      r.received_raw[static_cast<std::size_t>(j)] += raw[j];
      r.received_effective[static_cast<std::size_t>(j)] += effective[j];
    }
  }
  r.rank = static_cast<std::int64_t>(range(data, s, head).size());
  const auto norm = [](const matrix& x) {
    double sum = 0;
    for (const double y : x) sum += y * y;
    return std::sqrt(sum);
  };
  r.raw_norm = norm(seen_raw);
  r.effective_norm = norm(seen_effective);
  r.pearson = correlation(seen_raw, seen_effective);
  return r;
}

/// Largest over smallest singular value of the first rows of u (keys, columns) that is not zero.
double condition(context& ctx, std::vector<double> u, std::int64_t rows, std::int64_t columns, double zero) {
  u.resize(static_cast<std::size_t>(rows * columns));
  const auto found = range_basis(ctx, tensor<double>(ctx, {rows, columns}, u), {.tolerance = {.relative = zero}});
  const std::vector<double> s = found.s.to_host();
  return found.rank[0] == 0 ? 1 : s[0] / s[static_cast<std::size_t>(found.rank[0]) - 1];
}

template <class T>
void check_shape(context& ctx, const head_shape& s) {
  const head_data<T> data = make_data<T>(s);
  const by_rows<T> result = compute(ctx, data, s);
  constexpr double eps = std::numeric_limits<T>::epsilon();
  for (std::int64_t head = 0; head < s.heads; ++head) {
    const reference expected = make_rows(data, s, head);
    const auto at = static_cast<std::size_t>(head);
    EXPECT_EQ(result.rank[at], expected.rank) << s.text();
    const auto first = result.u.begin() + head * s.keys * result.columns;
    const std::vector<double> u(first, first + s.keys * result.columns);
    double worst = 1;
    for (std::int64_t i = 0; i < s.queries; ++i) {
      const std::int64_t seen = std::min(s.keys, i + 1 + s.keys - s.queries);
      if (seen < 1) {
        for (std::int64_t j = 0; j < s.keys; ++j) {
          EXPECT_EQ(result.effective[static_cast<std::size_t>((head * s.queries + i) * s.keys + j)], 0) << s.text();
        }
        continue;
      }
      const double of_prefix = condition(ctx, u, seen, result.columns, 100 * eps);
      worst = std::max(worst, of_prefix);
      double error = 0, length = 0, outside = 0, complement = 0;
      for (std::int64_t j = 0; j < s.keys; ++j) {
        const auto e = static_cast<std::size_t>(i * s.keys + j);
        const auto g = static_cast<std::size_t>(head * s.queries * s.keys) + e;
        error += std::pow(static_cast<double>(result.effective[g]) - expected.effective[e], 2);
        complement += std::pow(static_cast<double>(result.effective[g] + result.null_part[g]) - expected.raw[e], 2);
        length += std::pow(expected.raw[e], 2);
        if (j >= seen) outside += std::abs(static_cast<double>(result.effective[g]));
      }
      const double unit = eps * std::sqrt(length) * std::sqrt(static_cast<double>(s.keys + s.dk));
      EXPECT_LT(std::sqrt(error) / (unit * of_prefix), bound) << s.text() << ", row " << i << ", cond " << of_prefix;
      EXPECT_LT(std::sqrt(complement) / unit, bound) << s.text() << ", row " << i;
      EXPECT_EQ(outside, 0) << s.text() << ", row " << i;
    }
    const double depth = worst * std::sqrt(static_cast<double>(s.keys + s.dk));
    const auto part = [&](const std::vector<T>& x) {
      return std::vector<T>(x.begin() + head * s.keys, x.begin() + (head + 1) * s.keys);
    };
    EXPECT_LT(scaled_residual(part(result.received_raw), expected.received_raw, std::sqrt(double(s.keys + s.dk))),
              bound)
        << s.text();
    EXPECT_LT(scaled_residual(part(result.received_effective), expected.received_effective, depth), bound) << s.text();
    const effective_attention_summary<T>& summary = result.summary[at];
    EXPECT_NEAR(double(summary.raw_norm), expected.raw_norm, 4 * bound * eps * expected.raw_norm) << s.text();
    EXPECT_NEAR(double(summary.effective_norm), expected.effective_norm, bound * depth * eps * expected.raw_norm);
    if (s.queries > 1) {
      EXPECT_NEAR(double(summary.pearson), expected.pearson, bound * depth * eps) << s.text();
    }
  }
}

const std::vector<head_shape> shapes{
    {1, 1, 1, 2, 1, 1, true},        {3, 7, 7, 5, 3, 9, true}, {2, 65, 65, 16, 17, 24, true},
    {1, 33, 33, 16, 40, 64, true},    // more columns than tokens: the null space of every row is {0}
    {2, 40, 40, 8, 6, 0, true},       // no h
    {2, 30, 45, 8, 6, 12, true},      // more keys than queries
    {2, 45, 30, 8, 6, 12, true},      // rows that see nothing
    {2, 60, 60, 8, 10, 12, true, 3},  // rows that repeat three: prefixes and all of T lack rank
    {2, 60, 60, 8, 10, 4, true},      // narrow h
};

INSTANTIATE_TEST_SUITE_P(devices, effective_attention_by_rows_test, testing::ValuesIn(devices()), device_name);

TEST_P(effective_attention_by_rows_test, agrees_with_the_definition_in_float) {
  for (const head_shape& s : shapes) check_shape<float>(ctx_, s);
}

TEST_P(effective_attention_by_rows_test, agrees_with_the_definition_in_double) {
  if (!has_fp64()) GTEST_SKIP() << "no fp64";
  for (const head_shape& s : {shapes[1], shapes[2], shapes[7]}) check_shape<double>(ctx_, s);
}

TEST_P(effective_attention_by_rows_test, agrees_with_the_definition_in_the_layout_of_gpus) {
  if (!detail::has_gpu_layouts) GTEST_SKIP() << "this build has no layouts of GPUs";
  context ctx(queue_, lane_layout::work_items(ctx_.device(), 32));
  for (const head_shape& s : {shapes[1], shapes[2], shapes[5], shapes[7]}) check_shape<float>(ctx, s);
}

/// A key that repeats an earlier one adds nothing to the span, also when the span is not complete yet.
TEST_P(effective_attention_by_rows_test, counts_repeated_rows_once_before_the_span_is_complete) {
  const head_shape s{1, 24, 24, 8, 8, 0, true};
  head_data<float> data = make_data<float>(s);
  for (const std::int64_t row : {1, 3, 4}) {
    std::copy_n(data.v.begin() + (row - 1) * s.dv, s.dv, data.v.begin() + row * s.dv);
  }
  const by_rows<float> result = compute(ctx_, data, s);
  const reference expected = make_rows(data, s, 0);
  for (std::size_t i = 0; i < expected.effective.size(); ++i) {
    EXPECT_NEAR(result.effective[i], expected.effective[i], 2e-4) << i;
  }
  const double split = expected.raw[24] + expected.raw[25];  // row 1 sees two equal keys: each gets half
  EXPECT_NEAR(result.effective[24], split / 2, 1e-5);
  EXPECT_NEAR(result.effective[25], split / 2, 1e-5);
}

/// Thousands of updates lose no digits: the last row is that of the projection with all keys.
TEST_P(effective_attention_by_rows_test, keeps_its_accuracy_over_long_sequences) {
  const head_shape s{1, 3000, 3000, 8, 8, 0, true};
  const head_data<float> data = make_data<float>(s);
  const by_rows<float> result = compute(ctx_, data, s);
  const std::vector<matrix> basis = range(data, s, 0);
  head_data<float> last = data;
  last.q.assign(data.q.end() - s.dk, data.q.end());
  const matrix row = weights(last, {1, 1, s.keys, s.dk, s.dv, 0, true}, 0);
  std::vector<float> got(result.effective.end() - s.keys, result.effective.end());
  matrix expected(static_cast<std::size_t>(s.keys), 0.0);
  for (const matrix& u : basis) {
    double along = 0;
    for (std::size_t j = 0; j < u.size(); ++j) along += row[j] * u[j];
    for (std::size_t j = 0; j < u.size(); ++j) expected[j] += along * u[j];
  }
  EXPECT_LT(scaled_residual(got, expected, std::sqrt(double(s.keys))), bound);
}

TEST_P(effective_attention_by_rows_test, a_head_with_nan_gets_nan_alone) {
  const head_shape s{2, 20, 20, 4, 4, 8, true};
  head_data<float> data = make_data<float>(s);
  const by_rows<float> clean = compute(ctx_, data, s);
  data.v[5] = NAN;
  const by_rows<float> result = compute(ctx_, data, s);
  EXPECT_EQ(result.rank[0], -1);
  EXPECT_TRUE(std::isnan(result.summary[0].pearson));
  EXPECT_TRUE(std::isnan(result.summary[0].effective_norm));
  EXPECT_TRUE(std::isnan(result.received_effective[3]));
  EXPECT_EQ(result.summary[1].pearson, clean.summary[1].pearson);
  for (std::size_t i = 0; i < 20 * 4; ++i) EXPECT_TRUE(std::isnan(result.p[i]));
  for (std::size_t i = 20 * 4; i < result.p.size(); ++i) EXPECT_EQ(result.p[i], clean.p[i]);
}

TEST_P(effective_attention_by_rows_test, refuses_tolerances_that_are_not_numbers) {
  const head_shape s{1, 4, 4, 2, 2, 0, true};
  const head_data<float> data = make_data<float>(s);
  EXPECT_THROW(compute(ctx_, data, s, {.row_tolerance = NAN}), invalid_argument);
}

}  // namespace
}  // namespace nullscope::test

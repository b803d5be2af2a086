#include <fmt/format.h>

#include <nullscope/core/tensor.hpp>
#include <nullscope/linalg/qr.hpp>

#include "lib/src/linalg/qr_plan.hpp"
#include "tests/linalg/lapack_layouts.hpp"

namespace nullscope::test {
namespace {

constexpr double bound = 10;  // of a scaled residual

/// A way to run: a layout, and how matrices are split.
struct way {
  context ctx;
  detail::qr_choices choices;
};

class qr_test : public device_test {
 protected:
  way default_way() const { return {context(queue_), detail::default_qr_choices(ctx_)}; }

  /// All layouts, each with one chunk per matrix, with a few, or as a tree of several levels.
  std::vector<way> all_ways() const {
    std::vector<way> ways;
    ways.push_back(default_way());
    for (const lane_layout& layout : lapack_layouts(GetParam())) {
      const std::vector<detail::qr_choices> choices =
          layout.has_vectors() ? std::vector<detail::qr_choices>{{2, 1, 16}, {3, 3, 0}, {2, 8, 48}}
                               : std::vector<detail::qr_choices>{{2, 1, 7}, {2, 9, 0}};
      for (const detail::qr_choices& c : choices) ways.push_back({context(queue_, layout), c});
    }
    return ways;
  }
};
INSTANTIATE_TEST_SUITE_P(devices, qr_test, testing::ValuesIn(devices()), device_name);

struct shape {
  std::int64_t batch, rows, columns;
  std::int64_t steps() const { return std::min(rows, columns); }
  std::vector<std::int64_t> a() const { return {batch, rows, columns}; }
  std::vector<std::int64_t> q() const { return {batch, rows, steps()}; }
  std::vector<std::int64_t> r() const { return {batch, steps(), columns}; }
};

std::ostream& operator<<(std::ostream& out, const shape& s) {
  return out << "(" << s.batch << ", " << s.rows << ", " << s.columns << ")";
}
std::string text(const way& w) {
  const auto& [parallel, chunks, block_rows] = w.choices;
  return fmt::format("{}, parallel {}, chunks {}, block {}", name_of(w.ctx.layout()), parallel, chunks, block_rows);
}

template <class T>
struct factors {
  std::vector<T> q, r;
};

/// Runs `pipeline` with a workspace that starts as NaN.
template <class Pipeline>
void run_in_rubbish(context& ctx, Pipeline pipeline) {
  const std::int64_t size = required_workspace(ctx, pipeline);
  tensor<std::byte> memory(ctx, {size}, std::vector<std::byte>(static_cast<std::size_t>(size), std::byte{0xff}));
  ctx.use_workspace(memory.span());
  pipeline(ctx).wait_and_throw();
  ctx.use_workspace({});
}

/// Results and workspace start as rubbish.
template <class T>
factors<T> run(way& w, const shape& s, const std::vector<T>& a) {
  const tensor<T> from(w.ctx, s.a(), a);
  tensor<T> q(w.ctx, s.q(), std::vector<T>(static_cast<std::size_t>(s.batch * s.rows * s.steps()), T(7)));
  tensor<T> r(w.ctx, s.r(), std::vector<T>(static_cast<std::size_t>(s.batch * s.steps() * s.columns), T(7)));
  run_in_rubbish(w.ctx, [&](context& ctx) { return detail::qr(ctx, w.choices, from, {.q = q, .r = r}); });
  return {q.to_host(), r.to_host()};
}

/// Worst scaled residuals of matrix `index`: reconstruction (column by column, so that bad scaling hides nothing) and
/// orthogonality; infinity if r is not upper triangular, or something is NaN.
template <class T>
std::pair<double, double> residuals(const shape& s, const std::vector<T>& a, const factors<T>& f, std::int64_t index) {
  const std::int64_t m = s.rows, n = s.columns, k = s.steps();
  const T* am = a.data() + index * m * n;
  const T* q = f.q.data() + index * m * k;
  const T* r = f.r.data() + index * k * n;
  const double eps = static_cast<double>(std::numeric_limits<T>::epsilon());
  double worst = 0, orthogonality = 0;
  for (std::int64_t j = 0; j < n; ++j) {
    long double difference = 0, norm = 0;  // squares of 1e250 must fit
    for (std::int64_t i = 0; i < m; ++i) {
      double sum = 0;
      for (std::int64_t l = 0; l < k; ++l) sum += static_cast<double>(q[i * k + l]) * static_cast<double>(r[l * n + j]);
      const long double expected = am[i * n + j];
      difference += (sum - expected) * (sum - expected);
      norm += expected * expected;
    }
    const double residual = norm > 0          ? static_cast<double>(std::sqrt(difference / norm))
                            : difference == 0 ? 0
                                              : INFINITY;
    worst = std::isnan(residual) ? INFINITY : std::max(worst, residual);
    for (std::int64_t l = j + 1; l < k; ++l) {
      if (r[l * n + j] != 0) worst = INFINITY;
    }
  }
  for (std::int64_t j = 0; j < k; ++j) {
    for (std::int64_t l = 0; l <= j; ++l) {
      double sum = j == l ? -1 : 0;
      for (std::int64_t i = 0; i < m; ++i) sum += static_cast<double>(q[i * k + j]) * static_cast<double>(q[i * k + l]);
      orthogonality += (j == l ? 1 : 2) * sum * sum;
    }
  }
  const double depth = static_cast<double>(std::max<std::int64_t>(k, 1)) * eps;
  return {worst / depth, std::sqrt(orthogonality) / depth};
}

TEST(qr_residuals, nan_in_one_column_is_not_forgotten) {
  const shape s{1, 2, 2};
  const std::vector<float> identity{1, 0, 0, 1};
  for (std::size_t i = 0; i < 4; ++i) {
    std::vector<float> r = identity;
    r[i] = NAN;
    EXPECT_FALSE(residuals<float>(s, identity, {identity, r}, 0).first < bound) << i;
  }
  EXPECT_LT(residuals<float>(s, identity, {identity, identity}, 0).first, bound);
}

template <class T>
void expect_factored(way& w, const shape& s, const std::vector<T>& a, const std::string& what = "") {
  const factors<T> f = run<T>(w, s, a);
  for (std::int64_t index = 0; index < s.batch; ++index) {
    const auto [reconstruction, orthogonality] = residuals(s, a, f, index);
    EXPECT_LT(reconstruction, bound) << what << " " << s << " matrix " << index << " " << text(w);
    EXPECT_LT(orthogonality, bound) << what << " " << s << " matrix " << index << " " << text(w);
  }
}

template <class T>
void check_shapes(std::vector<way> ways) {
  for (way& w : ways) {
    for (const shape& s : {shape{1, 1, 1},
                           {3, 1, 5},
                           {3, 5, 1},
                           {2, 16, 16},
                           {2, 17, 16},
                           {2, 40, 33},
                           {2, 33, 40},
                           {1, 300, 64},
                           {1, 700, 65},
                           {5, 37, 8},
                           {2, 100, 100}}) {
      expect_factored<T>(w, s, random_numbers<T>(s.batch * s.rows * s.columns, 3));
    }
  }
}

TEST_P(qr_test, factors_shapes_in_float) { check_shapes<float>(all_ways()); }

TEST_P(qr_test, factors_shapes_in_double) {
  if (!has_fp64()) GTEST_SKIP();
  check_shapes<double>(all_ways());
}

TEST_P(qr_test, factors_every_small_shape) {
  for (const lane_layout& layout : lapack_layouts(GetParam())) {
    way w{context(queue_, layout), {2}};
    for (std::int64_t m = 1; m <= 40; m += m < 18 ? 1 : 5) {
      for (std::int64_t n = 1; n <= 40; n += n < 18 ? 1 : 5) {
        const shape s{2, m, n};
        expect_factored<float>(w, s, random_numbers<float>(2 * m * n, 5));
      }
    }
  }
}

TEST_P(qr_test, factors_tall_and_wide_matrices) {
  way w = default_way();
  for (const shape& s : {shape{1, 20000, 16}, {3, 2048, 64}, {1, 1500, 300}, {1, 64, 3000}, {1, 3, 20011}}) {
    expect_factored<float>(w, s, random_numbers<float>(s.batch * s.rows * s.columns, 7));
  }
}

/// Matrices that break Gram-Schmidt and Cholesky: dependent, zero, duplicated and graded columns, and extreme scales.
template <class T>
std::vector<std::pair<std::string, std::vector<T>>> hard_matrices(const shape& s) {
  const std::int64_t m = s.rows, n = s.columns;
  const std::vector<T> random = random_numbers<T>(m * n, 11);
  std::vector<std::pair<std::string, std::vector<T>>> result;
  const auto add = [&](const std::string& name, auto value) {
    std::vector<T> a(random.size());
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) a[static_cast<std::size_t>(i * n + j)] = static_cast<T>(value(i, j));
    }
    result.emplace_back(name, a);
  };
  const auto at = [&](std::int64_t i, std::int64_t j) { return random[static_cast<std::size_t>(i * n + j)]; };
  const double far = sizeof(T) == 4 ? 1e30 : 1e250;
  add("zero", [&](auto, auto) { return 0; });
  add("ones", [&](auto, auto) { return 1; });
  add("identity", [&](auto i, auto j) { return i == j ? 1 : 0; });
  add("zero columns", [&](auto i, auto j) { return j % 3 == 1 ? T(0) : at(i, j); });
  add("duplicated columns", [&](auto i, auto j) { return at(i, j / 2); });
  add("duplicated rows", [&](auto i, auto j) { return at(i % 3, j); });
  add("rank one", [&](auto i, auto j) { return at(i, 0) * at(0, j); });
  add("nearly dependent", [&](auto i, auto j) { return at(i, 0) + T(1e-6) * at(i, j); });
  add("large", [&](auto i, auto j) { return far * at(i, j); });
  add("small", [&](auto i, auto j) { return at(i, j) / far; });
  add("graded columns", [&](auto i, auto j) { return at(i, j) * std::pow(far, 1 - 2.0 * j / double(n)); });
  add("graded rows", [&](auto i, auto j) { return at(i, j) * std::pow(far, -double(i) / double(m)); });
  add("one entry per column", [&](auto i, auto j) { return i == (7 * j + 5) % m ? at(i, j) : T(0); });
  add("tiny below one", [&](auto i, auto j) { return i == 0 ? T(1) : at(i, j) / T(far); });
  return result;
}

template <class T>
void check_hard_matrices(std::vector<way> ways) {
  for (const shape& s : {shape{1, 90, 21}, {1, 24, 24}, {1, 12, 20}}) {
    for (const auto& [name, a] : hard_matrices<T>(s)) {
      for (way& w : ways) expect_factored<T>(w, s, a, name);
    }
  }
}

TEST_P(qr_test, stays_orthogonal_on_hard_matrices_in_float) { check_hard_matrices<float>(all_ways()); }

TEST_P(qr_test, stays_orthogonal_on_hard_matrices_in_double) {
  if (!has_fp64()) GTEST_SKIP();
  check_hard_matrices<double>(all_ways());
}

TEST_P(qr_test, nan_and_infinity_stay_in_their_matrix) {
  const shape s{5, 70, 9};
  const std::vector<float> clean = random_numbers<float>(s.batch * s.rows * s.columns, 13);
  std::vector<float> a = clean;
  a[static_cast<std::size_t>(1 * 630 + 40 * 9 + 3)] = std::numeric_limits<float>::quiet_NaN();
  a[static_cast<std::size_t>(3 * 630)] = std::numeric_limits<float>::infinity();
  for (way& w : all_ways()) {
    const factors<float> expected = run<float>(w, s, clean), got = run<float>(w, s, a);
    for (std::int64_t index = 0; index < s.batch; ++index) {
      const auto same = [&](const std::vector<float>& x, const std::vector<float>& y) {
        const auto size = static_cast<std::ptrdiff_t>(x.size()) / s.batch;
        return std::equal(x.begin() + index * size, x.begin() + (index + 1) * size, y.begin() + index * size);
      };
      if (index == 1 || index == 3) {
        EXPECT_FALSE(residuals(s, a, got, index).first < 1e30) << "a wrong answer without NaN, " << text(w);
        EXPECT_TRUE(std::isnan(got.r[static_cast<std::size_t>((index * 9 + 8) * 9 + 8)]));
      } else {
        EXPECT_TRUE(same(got.q, expected.q) && same(got.r, expected.r)) << index << " " << text(w);
      }
    }
  }
}

TEST_P(qr_test, gives_the_same_bits_again_and_whatever_the_batch) {
  const shape one{1, 500, 20}, many{7, 500, 20};
  std::vector<float> a = random_numbers<float>(7 * 500 * 20, 17);
  way w{context(queue_), {2, 1, 0}};
  const factors<float> first = run<float>(w, many, a), second = run<float>(w, many, a);
  EXPECT_EQ(first.q, second.q);
  EXPECT_EQ(first.r, second.r);
  const factors<float> alone = run<float>(w, one, {a.end() - 500 * 20, a.end()});
  EXPECT_EQ(alone.q, (std::vector<float>{first.q.end() - 500 * 20, first.q.end()}));
}

TEST_P(qr_test, takes_any_strides_and_may_overwrite_its_input) {
  const std::int64_t batch = 3, m = 50, n = 18;
  const shape s{batch, m, n};
  const std::vector<float> a = random_numbers<float>(batch * m * n, 19);
  way w = default_way();
  const factors<float> expected = run<float>(w, s, a);
  // a as the transpose of (batch, n, m + 3); q as the transpose; r with gaps in every dimension
  std::vector<float> a_padded(static_cast<std::size_t>(batch * n * (m + 3)), 99.0f);
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        a_padded[static_cast<std::size_t>((b * n + j) * (m + 3) + i)] =
            a[static_cast<std::size_t>((b * m + i) * n + j)];
      }
    }
  }
  tensor<float> memory(queue_, {batch, n, m + 3}, a_padded);
  tensor<float> gaps(queue_, {batch * 2, n + 1, 3 * n},
                     std::vector<float>(static_cast<std::size_t>(batch * 2 * (n + 1) * 3 * n), 55.0f));
  const view<float, 3> in_place = transposed(slice(memory.as<3>(), 2, 0, m));
  const view<float, 3> r{gaps.data(), {batch, n, n}, {2 * (n + 1) * 3 * n, 3 * n, 3}};
  qr(ctx_, in_place, {.q = in_place, .r = r}).wait();
  const std::vector<float> q_host = memory.to_host(), r_host = gaps.to_host();
  std::int64_t wrong = 0;
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t i = 0; i < m + 3; ++i) {
        const float should = i < m ? expected.q[static_cast<std::size_t>((b * m + i) * n + j)] : 99.0f;
        wrong += q_host[static_cast<std::size_t>((b * n + j) * (m + 3) + i)] != should;
      }
      for (std::int64_t i = 0; i < 3 * n; ++i) {
        const float should = i % 3 == 0 ? expected.r[static_cast<std::size_t>((b * n + j) * n + i / 3)] : 55.0f;
        wrong += r_host[static_cast<std::size_t>((b * 2 * (n + 1) + j) * 3 * n + i)] != should;
      }
    }
  }
  EXPECT_EQ(wrong, 0);
}

TEST_P(qr_test, gives_r_alone_and_one_matrix_for_the_whole_batch) {
  const shape s{2, 600, 12};
  const std::vector<float> one = random_numbers<float>(600 * 12, 23);
  std::vector<float> twice = one;
  twice.insert(twice.end(), one.begin(), one.end());
  const tensor<float> a(queue_, {1, 600, 12}, one);
  view<const float, 3> repeated = a.as<3>();
  repeated.extent[0] = 2;
  repeated.stride[0] = 0;
  for (way& w : all_ways()) {
    const factors<float> expected = run<float>(w, s, twice);
    tensor<float> r(queue_, s.r());
    run_in_rubbish(w.ctx, [&](context& ctx) { return detail::qr(ctx, w.choices, repeated, {.r = r}); });
    EXPECT_EQ(r.to_host(), expected.r) << text(w);
  }
}

TEST_P(qr_test, does_nothing_for_empty_matrices) {
  for (const shape& s : {shape{0, 5, 3}, {2, 0, 3}, {2, 3, 0}}) {
    tensor<float> a(queue_, s.a()), q(queue_, s.q()), r(queue_, s.r());
    EXPECT_NO_THROW(qr(ctx_, a, {.q = q, .r = r}).wait()) << s;
  }
}

TEST_P(qr_test, honours_dependencies) {
  context out_of_order(sycl::queue{GetParam()});
  const shape s{4, 400, 8};
  const std::vector<float> numbers = random_numbers<float>(s.batch * s.rows * s.columns, 29);
  way w = default_way();
  const factors<float> expected = run<float>(w, s, numbers);
  tensor<float> a(queue_, s.a(), std::vector<float>(numbers.size(), 0.0f), sycl::usm::alloc::shared);
  tensor<float> q(queue_, s.q()), r(queue_, s.r());
  tensor<float> large(queue_, {1 << 24});
  sycl::event before;
  for (int i = 0; i < 8; ++i)
    before = out_of_order.queue().fill(large.data(), float(i), 1 << 24, before);  // takes a while
  const tensor<float> source(queue_, s.a(), numbers);
  const sycl::event copied =
      out_of_order.queue().memcpy(a.data(), source.data(), numbers.size() * sizeof(float), before);
  qr(out_of_order, a, {.q = q, .r = r}, {copied}).wait();
  EXPECT_EQ(q.to_host(), expected.q);
  EXPECT_EQ(r.to_host(), expected.r);
}

TEST_P(qr_test, refuses_what_it_cannot_take) {
  tensor<float> a(queue_, {2, 6, 4}), q(queue_, {2, 6, 4}), r(queue_, {2, 4, 4});
  const view<float, 3> to_q = q, to_r = r;
  const auto message = [&](view<const float, 3> from, const qr_results<float>& results) {
    return message_of<invalid_argument>([&] { qr(ctx_, from, results); });
  };
  EXPECT_EQ(message(a, {.q = slice(to_q, 2, 0, 3), .r = to_r}),
            "qr: q (2, 6, 3) with strides (24, 4, 1) should be (2, 6, 4)");
  EXPECT_EQ(message(a, {.q = slice(to_q, 1, 0, 5), .r = to_r}),
            "qr: q (2, 5, 4) with strides (24, 4, 1) should be (2, 6, 4)");
  EXPECT_EQ(message(a, {.q = slice(to_q, 0, 0, 0), .r = to_r}),
            "qr: q (0, 6, 4) with strides (24, 4, 1) should be (2, 6, 4)");
  EXPECT_EQ(message(a, {.q = to_q, .r = slice(to_r, 1, 0, 3)}),
            "qr: r (2, 3, 4) with strides (16, 4, 1) should be (2, 4, 4)");
  EXPECT_EQ(message(a, {.q = to_q, .r = slice(to_r, 0, 0, 1)}),
            "qr: r (1, 4, 4) with strides (16, 4, 1) should be (2, 4, 4)");
  EXPECT_EQ(message(a, {.q = to_q, .r = {}}), "qr: r (0, 0, 0) with strides (0, 0, 0) should be (2, 4, 4)");
  view<float, 3> overlapping = to_q;
  overlapping.stride[1] = 3;
  EXPECT_EQ(message(a, {.q = overlapping, .r = to_r}),
            "qr: q (2, 6, 4) with strides (24, 3, 1) has strides that overlap");
  EXPECT_EQ(message(contiguous<const float>(nullptr, 2, 6, 4), {.q = to_q, .r = to_r}),
            "qr: a (2, 6, 4) with strides (24, 4, 1) has a null pointer");
  EXPECT_EQ(message(contiguous<const float>(a.data(), 2, -6, 4), {.q = to_q, .r = to_r}),
            "qr: a (2, -6, 4) with strides (-24, 4, 1) has a negative extent");
  const std::int64_t size = required_workspace(ctx_, [&](context& ctx) { qr(ctx, a, {.q = q, .r = r}); });
  tensor<std::byte> memory(queue_, {64});
  ctx_.use_workspace(memory.span());
  EXPECT_EQ(message(a, {.q = to_q, .r = to_r}),
            fmt::format("qr: the workspace is too small, {} bytes are needed", size));
}

}  // namespace
}  // namespace nullscope::test

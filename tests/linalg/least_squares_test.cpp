/// least_squares: against LAPACK in double, dependent columns, too few rows, problems of different length, NaN.
#include <nullscope/core/tensor.hpp>
#include <nullscope/linalg/qr.hpp>

#include "tests/core/layouts.hpp"
#include "tests/core/support.hpp"

#ifdef NULLSCOPE_HAS_ONEMKL
#include <mkl_lapacke.h>
#endif

namespace nullscope::test {
namespace {

constexpr double bound = 10;  // of a scaled residual

class least_squares_test : public device_test {};
INSTANTIATE_TEST_SUITE_P(devices, least_squares_test, testing::ValuesIn(devices()), device_name);

struct shape {
  std::int64_t batch, m, n, k;
};

template <class T>
std::vector<T> solve(context& ctx, const shape& s, const std::vector<T>& a, const std::vector<T>& b) {
  const tensor<T> left(ctx, {s.batch, s.m, s.n}, a), right(ctx, {s.batch, s.m, s.k}, b);
  tensor<T> x(ctx, {s.batch, s.n, s.k}, std::vector<T>(static_cast<std::size_t>(s.batch * s.n * s.k), T(7)));
  least_squares(ctx, least_squares_operands<T>{left, right}, x).wait_and_throw();
  return x.to_host();
}

/// a^T (a x - b) of one problem, in double: 0 for a minimiser.
template <class T>
std::vector<double> gradient(const shape& s, const T* a, const T* b, const T* x) {
  std::vector<double> result(static_cast<std::size_t>(s.n * s.k), 0.0);
  for (std::int64_t i = 0; i < s.m; ++i) {
    for (std::int64_t c = 0; c < s.k; ++c) {
      double residual = -static_cast<double>(b[i * s.k + c]);
      for (std::int64_t j = 0; j < s.n; ++j) {
        residual += static_cast<double>(a[i * s.n + j]) * static_cast<double>(x[j * s.k + c]);
      }
      for (std::int64_t j = 0; j < s.n; ++j) {
        result[static_cast<std::size_t>(j * s.k + c)] += static_cast<double>(a[i * s.n + j]) * residual;
      }
    }
  }
  return result;
}

double norm(const std::vector<double>& x) {
  double sum = 0;
  for (const double e : x) sum += e * e;
  return std::sqrt(sum);
}

/// |a^T (a x - b)| / (|a| (|a| |x| + |b|) sqrt(n) eps), the worst of the batch.
template <class T>
double optimality(const shape& s, const std::vector<T>& a, const std::vector<T>& b, const std::vector<T>& x) {
  double worst = 0;
  for (std::int64_t p = 0; p < s.batch; ++p) {
    const auto part = [&](const std::vector<T>& of, std::int64_t size) {
      return std::vector<double>(of.begin() + p * size, of.begin() + (p + 1) * size);
    };
    const double of_a = norm(part(a, s.m * s.n)), of_b = norm(part(b, s.m * s.k)), of_x = norm(part(x, s.n * s.k));
    const double pull = norm(gradient(s, a.data() + p * s.m * s.n, b.data() + p * s.m * s.k, x.data() + p * s.n * s.k));
    const double eps = static_cast<double>(std::numeric_limits<T>::epsilon());
    worst = worse(worst, pull / (of_a * (of_a * of_x + of_b) * std::sqrt(static_cast<double>(s.n)) * eps));
  }
  return worst;
}

template <class T>
void check(context& ctx, const shape& s) {
  const std::vector<T> a = random_numbers<T>(s.batch * s.m * s.n, 1), b = random_numbers<T>(s.batch * s.m * s.k, 2);
  const std::vector<T> x = solve(ctx, s, a, b);
  EXPECT_LT(optimality(s, a, b, x), bound) << s.batch << " x " << s.m << " x " << s.n << ", " << s.k;
#ifdef NULLSCOPE_HAS_ONEMKL
  if (s.m < s.n) return;
  std::vector<double> expected;
  for (std::int64_t p = 0; p < s.batch; ++p) {
    std::vector<double> left(a.begin() + p * s.m * s.n, a.begin() + (p + 1) * s.m * s.n),
        right(b.begin() + p * s.m * s.k, b.begin() + (p + 1) * s.m * s.k);
    ASSERT_EQ(LAPACKE_dgels(LAPACK_ROW_MAJOR, 'N', s.m, s.n, s.k, left.data(), s.n, right.data(), s.k), 0);
    expected.insert(expected.end(), right.begin(), right.begin() + s.n * s.k);
  }
  EXPECT_LT(scaled_residual(x, expected, static_cast<double>(s.n)), bound)
      << s.batch << " x " << s.m << " x " << s.n << ", " << s.k;
#endif
}

TEST_P(least_squares_test, agrees_with_lapack_on_vectors_and_work_items) {
  for (const lane_layout& layout : compiled({ctx_.layout(), lane_layout::work_items(properties(GetParam()), 32)})) {
    SCOPED_TRACE(name_of(layout));
    context ctx(queue_, layout);
    check<float>(ctx, {3, 211, 37, 19});
    check<float>(ctx, {1, 1, 1, 1});
  }
  check<float>(ctx_, {2, 900, 96, 96});
  if (has_fp64()) check<double>(ctx_, {2, 150, 41, 70});
}

TEST_P(least_squares_test, takes_fewer_rows_than_columns_and_dependent_columns) {
  check<float>(ctx_, {2, 5, 23, 3});
  const shape s{1, 60, 9, 4};
  std::vector<float> a = random_numbers<float>(s.m * s.n, 3);
  for (std::int64_t i = 0; i < s.m; ++i) {
    float* row = a.data() + i * s.n;
    row[4] = row[0] - 2 * row[3];
    row[8] = 0;
  }
  const std::vector<float> b = random_numbers<float>(s.m * s.k, 4);
  const std::vector<float> x = solve(ctx_, s, a, b);
  EXPECT_LT(optimality(s, a, b, x), bound);
  for (const float e : x) EXPECT_LT(std::abs(e), 10);  // no huge coefficients that cancel
  EXPECT_EQ(solve<float>(ctx_, {1, 4, 2, 1}, std::vector<float>(8, 0.f), std::vector<float>(4, 1.f)),
            (std::vector<float>{0, 0}));
}

TEST_P(least_squares_test, ignores_rows_of_zeros_and_keeps_nan_to_its_problem) {
  const shape s{3, 40, 7, 5}, shorter{1, 31, 7, 5};
  std::vector<float> a = random_numbers<float>(3 * 40 * 7, 5), b = random_numbers<float>(3 * 40 * 5, 6);
  std::fill(a.begin() + 31 * 7, a.begin() + 40 * 7, 0.f);
  std::fill(b.begin() + 31 * 5, b.begin() + 40 * 5, 0.f);
  a[2 * 40 * 7 + 3] = NAN;
  const std::vector<float> x = solve(ctx_, s, a, b);
  const std::vector<float> alone =
      solve(ctx_, shorter, std::vector<float>(a.begin(), a.begin() + 31 * 7), {b.begin(), b.begin() + 31 * 5});
  EXPECT_LT(scaled_residual(std::vector<float>(x.begin(), x.begin() + 35),
                            std::vector<double>(alone.begin(), alone.end()), 7),
            bound);
  for (std::size_t i = 0; i < 70; ++i) EXPECT_TRUE(std::isfinite(x[i]));
  for (std::size_t i = 70; i < 105; ++i) EXPECT_TRUE(std::isnan(x[i]));
}

TEST_P(least_squares_test, writes_to_any_strides) {
  const std::vector<float> a = random_numbers<float>(50 * 6, 7), b = random_numbers<float>(50 * 9, 8);
  const tensor<float> left(ctx_, {50, 6}, a), right(ctx_, {50, 9}, b);
  tensor<float> x(ctx_, {9, 6});
  least_squares(ctx_, least_squares_operands<float>{left, right}, transposed(view<float, 3>(x))).wait_and_throw();
  const std::vector<float> got = x.to_host(), expected = solve<float>(ctx_, {1, 50, 6, 9}, a, b);
  for (std::size_t i = 0; i < 6; ++i) {
    for (std::size_t j = 0; j < 9; ++j) EXPECT_NEAR(got[j * 6 + i], expected[i * 9 + j], 1e-5);
  }
}

}  // namespace
}  // namespace nullscope::test

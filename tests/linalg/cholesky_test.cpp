/// cholesky and cholesky_solve: scaled residuals in double, strides, matrices that have no factor, bad scaling.
#include <cmath>
#include <nullscope/core/tensor.hpp>
#include <nullscope/linalg/cholesky.hpp>
#include <nullscope/linalg/rows.hpp>

#include "tests/linalg/layout_test.hpp"

namespace nullscope::test {
namespace {

constexpr double bound = 10;  // of a scaled residual

class cholesky_test : public layout_test {
 protected:
  template <class Check>
  void in_all_layouts(Check check) {
    check(float());
    if (has_fp64()) check(double());
    with_layouts({vectors(64), vectors(32), work_items(1), work_items(32), work_items(256),
                  lane_layout::work_items(ctx_.device(), 64)},
                 [&] {
                   check(float());
                   if (has_fp64()) check(double());
                 });
  }
};
INSTANTIATE_TEST_SUITE_P(devices, cholesky_test, testing::ValuesIn(devices()), device_name);

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

/// g g^T + I / 4 with random g, rows and columns times 2^(spread i): (batch, n, n).
template <class T>
std::vector<T> definite(std::int64_t batch, std::int64_t n, int spread = 0) {
  const std::vector<double> g = random_numbers<double>(batch * n * n, 1);
  std::vector<T> a(g.size());
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = i == j ? 0.25 : 0;
        for (std::int64_t k = 0; k < n; ++k) sum += g[at((b * n + i) * n + k)] * g[at((b * n + j) * n + k)];
        a[at((b * n + i) * n + j)] = static_cast<T>(std::ldexp(sum, spread * static_cast<int>(i + j - n)));
      }
    }
  }
  return a;
}

template <class T>
struct factored {
  std::vector<T> l;
  std::vector<std::int32_t> status;
};

/// The part above the diagonal of a is not read: it becomes NaN.
template <class T>
factored<T> factor(context& ctx, std::int64_t batch, std::int64_t n, std::vector<T> a) {
  for (std::int64_t i = 0; i < batch * n; ++i) {
    for (std::int64_t j = i % n + 1; j < n; ++j) a[at(i * n + j)] = std::numeric_limits<T>::quiet_NaN();
  }
  const tensor<T> from(ctx, {batch, n, n}, a);
  tensor<T> l(ctx, {batch, n, n}, std::vector<T>(at(batch * n * n), T(7)));
  tensor<std::int32_t> status(ctx, {batch}, std::vector<std::int32_t>(at(batch), -1));
  cholesky(ctx, from, cholesky_results<T>{.l = l, .status = status}).wait_and_throw();
  return {l.to_host(), status.to_host()};
}

/// The worst |l l^T - a|_ij / (sqrt(a_ii a_jj) (n + 1) eps) of one matrix: bad scaling hides nothing. Infinity if l is
/// not lower triangular, or something is NaN.
template <class T>
double residual(std::int64_t n, const T* a, const T* l) {
  double worst = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      if (j > i && l[i * n + j] != 0) return INFINITY;
      if (j > i) continue;
      const double size = std::sqrt(static_cast<double>(a[i * n + i])) * std::sqrt(static_cast<double>(a[j * n + j]));
      double sum = -static_cast<double>(a[i * n + j]) / size;
      for (std::int64_t k = 0; k <= j; ++k) {
        sum += static_cast<double>(l[i * n + k]) / size * static_cast<double>(l[j * n + k]);
      }
      worst = std::isnan(sum) ? INFINITY : std::max(worst, std::abs(sum));
    }
  }
  return worst / (static_cast<double>(n + 1) * static_cast<double>(std::numeric_limits<T>::epsilon()));
}

/// The worst |a x - b|_ic / ((|a| |x| + |b|)_ic (n + 1) eps) of one matrix.
template <class T>
double solution_error(std::int64_t n, std::int64_t k, const T* a, const T* b, const T* x) {
  double worst = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t c = 0; c < k; ++c) {
      double sum = -static_cast<double>(b[i * k + c]), size = std::abs(sum);
      for (std::int64_t j = 0; j < n; ++j) {
        const double term = static_cast<double>(a[i * n + j]) * static_cast<double>(x[j * k + c]);
        sum += term;
        size += std::abs(term);
      }
      worst = std::isnan(sum) ? INFINITY : std::max(worst, std::abs(sum) / size);
    }
  }
  return worst / (static_cast<double>(n + 1) * static_cast<double>(std::numeric_limits<T>::epsilon()));
}

TEST_P(cholesky_test, factors_and_solves) {
  in_all_layouts([&]<class T>(T) {
    for (const std::int64_t batch : {1, 3}) {
      for (const std::int64_t n : {1, 2, 3, 4, 5, 17, 33, 64, 131}) {
        SCOPED_TRACE(std::to_string(batch) + " of " + std::to_string(n));
        const std::vector<T> a = definite<T>(batch, n);
        const factored<T> got = factor(ctx_, batch, n, a);
        for (const std::int64_t k : {1, 19}) {
          const std::vector<T> b = random_numbers<T>(batch * n * k, 2);
          const tensor<T> l(ctx_, {batch, n, n}, got.l), right(ctx_, {batch, n, k}, b);
          tensor<T> x(ctx_, {batch, n, k}), in_place(ctx_, {batch, n, k}, b);
          cholesky_solve(ctx_, cholesky_system<T>{l, right}, x).wait_and_throw();
          cholesky_solve(ctx_, cholesky_system<T>{l, in_place}, in_place).wait_and_throw();
          const std::vector<T> found = x.to_host();
          EXPECT_EQ(found, in_place.to_host());
          for (std::int64_t m = 0; m < batch; ++m) {
            EXPECT_LT(solution_error(n, k, &a[at(m * n * n)], &b[at(m * n * k)], &found[at(m * n * k)]), bound) << k;
          }
        }
        for (std::int64_t m = 0; m < batch; ++m) {
          EXPECT_EQ(got.status[at(m)], cholesky_factored);
          EXPECT_LT(residual(n, &a[at(m * n * n)], &got.l[at(m * n * n)]), bound);
        }
      }
    }
  });
}

TEST_P(cholesky_test, badly_scaled_matrices_are_as_good) {
  in_all_layouts([&]<class T>(T) {
    const std::int64_t n = 13;
    const int spread = sizeof(T) == sizeof(float) ? 4 : 35;  // diagonals from 2^-52 to 2^44, 2^-455 to 2^385
    const std::vector<T> a = definite<T>(2, n, spread);
    const factored<T> got = factor(ctx_, 2, n, a);
    for (std::int64_t m = 0; m < 2; ++m) {
      EXPECT_EQ(got.status[at(m)], cholesky_factored);
      EXPECT_LT(residual(n, &a[at(m * n * n)], &got.l[at(m * n * n)]), bound);
    }
  });
}

TEST_P(cholesky_test, matrices_without_a_factor_are_named_and_spoil_no_other) {
  in_all_layouts([&]<class T>(T) {
    for (const std::int64_t n : {1, 5, 37}) {
      std::vector<T> a = definite<T>(5, n);
      const std::vector<T> whole = a;
      const auto last = [&](std::int64_t m) -> T& { return a[at(m * n * n + n * n - 1)]; };
      last(1) = T(-1);
      last(2) = std::numeric_limits<T>::quiet_NaN();
      last(3) = std::numeric_limits<T>::infinity();
      const factored<T> got = factor(ctx_, 5, n, a);
      const std::vector<std::int32_t> expected{cholesky_factored, cholesky_not_positive_definite, cholesky_not_finite,
                                               cholesky_not_finite, cholesky_factored};
      EXPECT_EQ(got.status, expected) << n;
      for (const std::int64_t m : {0, 4}) EXPECT_LT(residual(n, &whole[at(m * n * n)], &got.l[at(m * n * n)]), bound);
      for (std::int64_t i = n * n; i < 4 * n * n; ++i) EXPECT_TRUE(std::isnan(got.l[at(i)])) << n;
    }
    const factored<T> zero = factor(ctx_, 1, 2, std::vector<T>(4, T(0)));
    EXPECT_EQ(zero.status[0], cholesky_not_positive_definite);
  });
}

TEST_P(cholesky_test, any_strides_and_in_place) {
  in_all_layouts([&]<class T>(T) {
    const std::int64_t n = 21, k = 6;
    const std::vector<T> a = definite<T>(2, n), b = random_numbers<T>(2 * n * k, 2);
    const factored<T> dense = factor(ctx_, 2, n, a);
    // column by column, in the middle of wider rows
    tensor<T> wide(ctx_, {2, n, n + 3}, std::vector<T>(at(2 * n * (n + 3)), T(7)));
    const view<T, 3> strided = transposed(slice(view<T, 3>(wide), 2, 2, n));
    const tensor<T> from(ctx_, {2, n, n}, a), right(ctx_, {2, n, k}, b);
    copy(ctx_, from, strided).wait();
    tensor<std::int32_t> status(ctx_, {2});
    cholesky(ctx_, strided, cholesky_results<T>{.l = strided, .status = status}).wait_and_throw();
    tensor<T> l(ctx_, {2, n, n}), x(ctx_, {2, n, k}), y(ctx_, {2, k, n});
    copy(ctx_, view<const T, 3>(strided), l).wait();
    EXPECT_EQ(l.to_host(), dense.l);
    cholesky_solve(ctx_, cholesky_system<T>{strided, right}, transposed(view<T, 3>(y))).wait_and_throw();
    copy(ctx_, view<const T, 3>(transposed(view<T, 3>(y))), x).wait();
    const std::vector<T> found = x.to_host();
    for (std::int64_t m = 0; m < 2; ++m) {
      EXPECT_LT(solution_error(n, k, &a[at(m * n * n)], &b[at(m * n * k)], &found[at(m * n * k)]), bound);
    }
  });
}

TEST_P(cholesky_test, empty_batches_and_matrices) {
  EXPECT_TRUE(factor<float>(ctx_, 0, 3, {}).status.empty());
  EXPECT_EQ(factor<float>(ctx_, 2, 0, {}).status, (std::vector<std::int32_t>{0, 0}));
  const tensor<float> l(ctx_, {2, 3, 3}), b(ctx_, {2, 3, 0});
  tensor<float> x(ctx_, {2, 3, 0});
  cholesky_solve(ctx_, cholesky_system<float>{l, b}, x).wait_and_throw();
}

}  // namespace
}  // namespace nullscope::test

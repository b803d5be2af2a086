/// The decompositions themselves: sizes, shapes, difficult matrices, algorithms.
#include "tests/linalg/svd_support.hpp"

namespace nullscope::test {
namespace {

INSTANTIATE_TEST_SUITE_P(devices, svd_test, testing::ValuesIn(devices()), device_name);

TEST_P(svd_test, all_sizes_up_to_40) {
  for_types([&]<class T>(T) {
    for (std::int64_t n = 1; n <= 40; ++n) {
      check_all(ctx_, random_batch<T>(1 + n % 3, n, n, 10 + n), {});
      for (const svd_algorithm algorithm : algorithms()) {
        check_all(ctx_, random_batch<T>(2, n, n, 10 + n), {svd_vectors::thin, algorithm});
        check_all(ctx_, random_batch<T>(2, n + n % 4, n, 60 + n), {svd_vectors::none, algorithm});
        check_all(ctx_, random_batch<T>(1, n, n + n % 7, 110 + n), {svd_vectors::full, algorithm});
      }
    }
  });
}

TEST_P(svd_test, tall_wide_and_thin_shapes) {
  for_types([&]<class T>(T) {
    const std::int64_t shapes[][2] = {{1, 9},     {9, 1},    {64, 768},  {768, 64},
                                      {2048, 64}, {100, 66}, {150, 100}, {130, 2}};
    for (const svd_algorithm algorithm : algorithms()) {
      for (const svd_vectors vectors : {svd_vectors::none, svd_vectors::thin}) {
        for (const auto& [m, n] : shapes) check_all(ctx_, random_batch<T>(1, m, n), {vectors, algorithm});
      }
      for (const auto& [m, n] : {std::pair{50, 20}, std::pair{20, 50}, std::pair{1, 12}, std::pair{130, 64}}) {
        check_all(ctx_, random_batch<T>(2, m, n), {svd_vectors::full, algorithm});
      }
    }
  });
}

TEST_P(svd_test, larger_squares) {
  for_types([&]<class T>(T) {
    for (const svd_algorithm algorithm : algorithms()) {
      for (const std::int64_t n : {66, 128, 200})
        check_all(ctx_, random_batch<T>(2, n, n), {svd_vectors::thin, algorithm});
    }
    check_all(ctx_, random_batch<T>(1, 300, 520), {});
  });
}

TEST_P(svd_test, difficult_matrices) {
  for_types([&]<class T>(T) {
    for (const svd_algorithm algorithm : algorithms()) {
      for (const svd_vectors vectors : {svd_vectors::none, svd_vectors::thin, svd_vectors::full}) {
        for (const auto& [m, n] : {std::pair{16, 16}, std::pair{24, 20}, std::pair{33, 12}, std::pair{12, 31}}) {
          check_all(ctx_, difficult_batch<T>(m, n), {vectors, algorithm});
        }
      }
      check_all(ctx_, difficult_batch<T>(64, 64), {svd_vectors::thin, algorithm});
    }
  });
}

/// Matrices of few zeros and ones have singular values that are the same, or nearly.
template <class T>
batch_of<T> sparse_ones(std::int64_t batch, std::int64_t n, std::uint64_t seed) {
  batch_of<T> a = random_batch<T>(batch, n, n, seed);
  for (T& x : a.numbers) x = std::abs(x) < T(1.5) / static_cast<T>(n) ? T(1) : T(0);
  return a;
}

TEST_P(svd_test, values_that_are_the_same_or_nearly) {
  for_types([&]<class T>(T) {
    for (const svd_algorithm algorithm : {svd_algorithm::bidiagonal, svd_algorithm::jacobi}) {
      for (const auto& [batch, n] : {std::pair{2000, 5}, std::pair{1000, 16}, std::pair{300, 32}}) {
        for (const svd_vectors vectors : {svd_vectors::none, svd_vectors::thin}) {
          check_all(ctx_, sparse_ones<T>(batch, n, 7), {vectors, algorithm});
        }
      }
    }
  });
}

TEST_P(svd_test, every_layout) {  // groups of 256 work-items are what a GPU gets
  for_types([&]<class T>(T) {
    for_layouts([&](context& ctx) {
      for (const svd_algorithm algorithm : {svd_algorithm::bidiagonal, svd_algorithm::jacobi}) {
        for (const svd_vectors vectors : {svd_vectors::none, svd_vectors::thin, svd_vectors::full}) {
          check_all(ctx, difficult_batch<T>(20, 17), {vectors, algorithm});
          check_all(ctx, difficult_batch<T>(12, 31), {vectors, algorithm});
        }
        check_all(ctx, random_batch<T>(3, 150, 64), {svd_vectors::thin, algorithm});
        for (const std::int64_t n : {1, 2, 3, 5, 8, 13, 21, 34}) {
          check_all(ctx, random_batch<T>(2 * n + 1, n + n % 2, n), {svd_vectors::thin, algorithm});
        }
      }
    });
  });
}

TEST_P(svd_test, groups_of_work_items_choose_jacobi) {
  for_layouts([&](context& ctx) {
    if (ctx.layout().has_vectors()) return;
    const batch_of<float> a = random_batch<float>(70, 12, 9);
    const host_svd<float> chosen = run(ctx, a, {}), jacobi = run(ctx, a, {.algorithm = svd_algorithm::jacobi});
    EXPECT_EQ(chosen.sweeps, jacobi.sweeps);
    EXPECT_EQ(chosen.u, jacobi.u);
  });
}

TEST_P(svd_test, jacobi_keeps_small_values_of_graded_matrices) {
  constexpr std::int64_t n = 24;
  batch_of<float> a = random_batch<float>(8, n, n);
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(a.numbers.size()); ++i) {
    const std::int64_t r = i / n % n, c = i % n;  // well conditioned but for the lengths of its columns, 1 to 1e-7
    a.numbers[std::size_t(i)] =
        (a.numbers[std::size_t(i)] + (r == c ? 8.0f : 0.0f)) * std::pow(10.0f, -7.0f * float(c) / n);
  }
  const host_svd<float> got = run(ctx_, a, {.algorithm = svd_algorithm::jacobi});
  for (std::int64_t b = 0; b < a.batch; ++b) {
    const std::vector<double> expected = reference_values(a[b], n, n);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double error = std::abs(got.s[std::size_t(b * n) + i] - expected[i]) / expected[i];
      EXPECT_LT(error, bound * std::numeric_limits<float>::epsilon()) << "value " << i << " of matrix " << b;
    }
  }
}

TEST_P(svd_test, rank_deficient_products_have_their_rank) {
  for_types([&]<class T>(T) {
    const batch_of<T> a = multiplied(random_batch<T>(20, 40, 7), random_batch<T>(20, 7, 30));
    for (const svd_algorithm algorithm : algorithms()) check_all(ctx_, a, {svd_vectors::thin, algorithm});
    const tensor<T> input(queue_, {a.batch, a.m, a.n}, a.numbers);
    for (const std::int64_t rank : numerical_rank(ctx_, input)) EXPECT_EQ(rank, 7);
  });
}

}  // namespace
}  // namespace nullscope::test

/// The decompositions themselves: sizes, shapes, difficult matrices, algorithms.
#include "svd_support.hpp"

namespace nullscope::test {
namespace {

INSTANTIATE_TEST_SUITE_P(devices, svd_test, testing::ValuesIn(devices()), device_name);

TEST_P(svd_test, all_sizes_up_to_40) {
  for_types([&]<class T>(T) {
    for (std::int64_t n = 1; n <= 40; ++n) {
      check_all(queue_, random_batch<T>(1 + n % 3, n, n, 10 + n), {});
      for (const svd_algorithm algorithm : algorithms()) {
        check_all(queue_, random_batch<T>(2, n, n, 10 + n), {svd_vectors::thin, algorithm});
        check_all(queue_, random_batch<T>(2, n + n % 4, n, 60 + n), {svd_vectors::none, algorithm});
        check_all(queue_, random_batch<T>(1, n, n + n % 7, 110 + n), {svd_vectors::full, algorithm});
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
        for (const auto& [m, n] : shapes) check_all(queue_, random_batch<T>(1, m, n), {vectors, algorithm});
      }
      for (const auto& [m, n] : {std::pair{50, 20}, std::pair{20, 50}, std::pair{1, 12}, std::pair{130, 64}}) {
        check_all(queue_, random_batch<T>(2, m, n), {svd_vectors::full, algorithm});
      }
    }
  });
}

TEST_P(svd_test, larger_squares) {
  for_types([&]<class T>(T) {
    for (const svd_algorithm algorithm : algorithms()) {
      for (const std::int64_t n : {66, 128, 200})
        check_all(queue_, random_batch<T>(2, n, n), {svd_vectors::thin, algorithm});
    }
    check_all(queue_, random_batch<T>(1, 300, 520), {});
  });
}

TEST_P(svd_test, difficult_matrices) {
  for_types([&]<class T>(T) {
    for (const svd_algorithm algorithm : algorithms()) {
      for (const svd_vectors vectors : {svd_vectors::none, svd_vectors::thin, svd_vectors::full}) {
        for (const auto& [m, n] : {std::pair{16, 16}, std::pair{24, 20}, std::pair{33, 12}, std::pair{12, 31}}) {
          check_all(queue_, difficult_batch<T>(m, n), {vectors, algorithm});
        }
      }
      check_all(queue_, difficult_batch<T>(64, 64), {svd_vectors::thin, algorithm});
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
          check_all(queue_, sparse_ones<T>(batch, n, 7), {vectors, algorithm});
        }
      }
    }
  });
}

/// Jacobi rotations by `shape.group` work-items a matrix, as on a GPU.
template <class T>
void check_jacobi_shape(sycl::queue& queue, const batch_of<T>& a, detail::jacobi_shape shape, svd_vectors vectors) {
  SCOPED_TRACE(testing::Message() << shape.group << " work-items, " << a.m << " x " << a.n << ", vectors "
                                  << int(vectors));
  const std::int64_t columns = vectors == svd_vectors::full ? a.m : a.n;
  tensor<T> s(queue, {a.batch, a.n}), u(queue, {a.batch, a.m, columns}), vt(queue, {a.batch, a.n, a.n});
  tensor<std::int32_t> status(queue, {a.batch});
  const tensor<T> input(queue, {a.batch, a.m, a.n}, a.numbers);
  const detail::svd_problem<T> problem{input.template as<3>(),
                                       s.template as<2>(),
                                       u.template as<3>(),
                                       transposed(vt.template as<3>()),
                                       status.as<1>(),
                                       {},
                                       columns,
                                       0};
  tensor<std::byte> scratch(queue, {detail::jacobi_path<T>::scratch_bytes(queue, problem, shape)});
  detail::jacobi_path<T>::run(queue, problem, shape, scratch.data(), {}).wait_and_throw();
  const host_svd<T> got{s.to_host(), u.to_host(), vt.to_host(), status.to_host(), {}};
  for (std::int64_t b = 0; b < a.batch; ++b) check_matrix(a, b, got, vectors);
}

TEST_P(svd_test, jacobi_with_many_work_items_a_matrix) {  // 256 is what a GPU gets
  for_types([&]<class T>(T) {
    for (const std::int64_t items : {1, 32, 48, 256}) {
      const detail::jacobi_shape shape{false, items};
      for (const svd_vectors vectors : {svd_vectors::thin, svd_vectors::full}) {
        check_jacobi_shape(queue_, difficult_batch<T>(20, 17), shape, vectors);
      }
      check_jacobi_shape(queue_, random_batch<T>(3, 150, 64), shape, svd_vectors::thin);
    }
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
  const host_svd<float> got = run(queue_, a, {.algorithm = svd_algorithm::jacobi});
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
    for (const svd_algorithm algorithm : algorithms()) check_all(queue_, a, {svd_vectors::thin, algorithm});
    const tensor<T> input(queue_, {a.batch, a.m, a.n}, a.numbers);
    for (const std::int64_t rank : numerical_rank<T>(queue_, input)) EXPECT_EQ(rank, 7);
  });
}

}  // namespace
}  // namespace nullscope::test

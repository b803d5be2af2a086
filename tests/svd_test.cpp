#include <cstring>
#include <functional>
#include <nullscope/launch.hpp>
#include <nullscope/svd.hpp>

#include "support.hpp"
#include "svd_paths.hpp"
#ifdef NULLSCOPE_HAS_ONEMKL
#include <mkl_lapacke.h>
#endif

namespace nullscope::test {
namespace {

constexpr double bound = 10;  // of every scaled residual

/// A batch of matrices on the host, row-major.
template <class T>
struct batch_of {
  std::int64_t batch, m, n;
  std::vector<T> numbers;

  std::int64_t size() const { return m * n; }
  T* operator[](std::int64_t b) { return numbers.data() + b * size(); }
  const T* operator[](std::int64_t b) const { return numbers.data() + b * size(); }
};

template <class T>
batch_of<T> random_batch(std::int64_t batch, std::int64_t m, std::int64_t n, std::uint64_t seed = 1) {
  return {batch, m, n, random_numbers<T>(batch * m * n, seed)};
}

/// Results on the host.
template <class T>
struct host_svd {
  std::vector<T> s, u, vt;
  std::vector<std::int32_t> status, sweeps;
};

template <class T>
host_svd<T> run(sycl::queue& queue, const batch_of<T>& a, const svd_options& options) {
  const std::int64_t values = std::min(a.m, a.n);
  const bool is_full = options.vectors == svd_vectors::full, has_vectors = options.vectors != svd_vectors::none;
  const tensor<T> input(queue, {a.batch, a.m, a.n}, a.numbers);
  // results start as rubbish, so that an element that is not written is seen
  const auto rubbish = [&](std::vector<std::int64_t> shape) {
    tensor<T> x(queue, shape);
    x.copy_from(std::vector<T>(static_cast<std::size_t>(x.size()), T(777)));
    return x;
  };
  tensor<T> s = rubbish({a.batch, values});
  tensor<T> u = rubbish({a.batch, a.m, !has_vectors ? 0 : is_full ? a.m : values});
  tensor<T> vt = rubbish({a.batch, !has_vectors ? 0 : is_full ? a.n : values, a.n});
  tensor<std::int32_t> status(queue, {a.batch}), sweeps(queue, {a.batch});
  tensor<std::byte> scratchpad(queue, {svd_scratchpad_size<T>(queue, a.batch, a.m, a.n, options)});
  svd<T>(queue, input.template as<3>(), s.template as<2>(), u.template as<3>(), vt.template as<3>(), status.as<1>(),
         sweeps.as<1>(), {scratchpad.data(), static_cast<std::size_t>(scratchpad.size())}, options)
      .wait_and_throw();
  EXPECT_EQ(std::memcmp(input.to_host().data(), a.numbers.data(), a.numbers.size() * sizeof(T)), 0) << "a changed";
  return {s.to_host(), u.to_host(), vt.to_host(), status.to_host(), sweeps.to_host()};
}

/// |Q^T Q - I|_F / (columns eps) of q (rows, columns) with any strides.
template <class T>
double orthogonality(const T* q, std::int64_t rows, std::int64_t columns, std::int64_t row_stride,
                     std::int64_t column_stride) {
  double difference = 0;
  for (std::int64_t i = 0; i < columns; ++i) {
    for (std::int64_t j = 0; j <= i; ++j) {
      double dot = i == j ? -1 : 0;
      for (std::int64_t r = 0; r < rows; ++r) {
        dot += double(q[r * row_stride + i * column_stride]) * double(q[r * row_stride + j * column_stride]);
      }
      difference += (i == j ? 1 : 2) * dot * dot;
    }
  }
  return std::sqrt(difference) / (double(columns) * std::numeric_limits<T>::epsilon());
}

/// Singular values by LAPACK in double.
template <class T>
std::vector<double> reference_values([[maybe_unused]] const T* a, [[maybe_unused]] std::int64_t m,
                                     [[maybe_unused]] std::int64_t n) {
#ifdef NULLSCOPE_HAS_ONEMKL
  std::vector<double> copy(a, a + m * n), s(static_cast<std::size_t>(std::min(m, n)));
  // the transpose has the same values
  const auto info = LAPACKE_dgesdd(LAPACK_COL_MAJOR, 'N', n, m, copy.data(), n, s.data(), nullptr, 1, nullptr, 1);
  EXPECT_EQ(info, 0);
  return s;
#else
  return {};
#endif
}

/// Every promise about one matrix of the batch.
template <class T>
void check_matrix(const batch_of<T>& a, std::int64_t b, const host_svd<T>& got, svd_vectors vectors) {
  const std::int64_t m = a.m, n = a.n, values = std::min(m, n);
  const double epsilon = std::numeric_limits<T>::epsilon();
  const T* s = got.s.data() + b * values;
  ASSERT_EQ(got.status[static_cast<std::size_t>(b)], svd_converged) << "matrix " << b;
  for (std::int64_t i = 0; i < values; ++i) {
    ASSERT_GE(s[i], T(0)) << "value " << i;
    if (i > 0) {
      ASSERT_LE(s[i], s[i - 1]) << "value " << i;
    }
  }
  const std::vector<double> expected = reference_values(a[b], m, n);
  if (!expected.empty()) {
    double difference = 0;
    for (std::int64_t i = 0; i < values; ++i) {
      difference = std::max(difference, std::abs(double(s[i]) - expected[static_cast<std::size_t>(i)]));
    }
    if (expected[0] > 0) difference /= expected[0] * double(values) * epsilon;
    EXPECT_LT(difference, bound) << "values against LAPACK, matrix " << b;
  }
  if (vectors == svd_vectors::none) return;
  const std::int64_t columns = vectors == svd_vectors::full ? m : values;
  const std::int64_t rows = vectors == svd_vectors::full ? n : values;
  const T* u = got.u.data() + b * m * columns;
  const T* vt = got.vt.data() + b * rows * n;
  EXPECT_LT(orthogonality(u, m, columns, columns, 1), bound) << "u, matrix " << b;
  EXPECT_LT(orthogonality(vt, n, rows, 1, n), bound) << "vt, matrix " << b;
  double largest = 0, size = 0, difference = 0;  // in units of the largest entry, whose square may overflow
  for (std::int64_t i = 0; i < m * n; ++i) largest = std::max(largest, std::abs(double(a[b][i])));
  const double unit = largest > 0 ? 1 / largest : 1;
  std::vector<double> row(static_cast<std::size_t>(n));
  for (std::int64_t r = 0; r < m; ++r) {
    for (std::int64_t c = 0; c < n; ++c) row[static_cast<std::size_t>(c)] = -double(a[b][r * n + c]) * unit;
    for (const double x : row) size += x * x;
    for (std::int64_t i = 0; i < values; ++i) {
      const double factor = double(u[r * columns + i]) * (double(s[i]) * unit);
      for (std::int64_t c = 0; c < n; ++c) row[static_cast<std::size_t>(c)] += factor * double(vt[i * n + c]);
    }
    for (const double x : row) difference += x * x;
  }
  const double residual = std::sqrt(difference) / (size > 0 ? std::sqrt(size) * double(std::max(m, n)) * epsilon : 1);
  EXPECT_LT(residual, bound) << "reconstruction, matrix " << b;
}

template <class T>
void check_all(sycl::queue& queue, const batch_of<T>& a, const svd_options& options) {
  SCOPED_TRACE(testing::Message() << a.batch << " x " << a.m << " x " << a.n << ", " << 8 * sizeof(T)
                                  << " bits, vectors " << int(options.vectors) << ", algorithm "
                                  << int(options.algorithm));
  const host_svd<T> got = run(queue, a, options);
  for (std::int64_t b = 0; b < a.batch; ++b) check_matrix(a, b, got, options.vectors);
}

template <class T>
batch_of<T> multiplied(const batch_of<T>& a, const batch_of<T>& b) {
  batch_of<T> result{a.batch, a.m, b.n, std::vector<T>(static_cast<std::size_t>(a.batch * a.m * b.n))};
  for (std::int64_t i = 0; i < a.batch; ++i) {
    for (std::int64_t r = 0; r < a.m; ++r) {
      for (std::int64_t c = 0; c < b.n; ++c) {
        double sum = 0;
        for (std::int64_t k = 0; k < a.n; ++k) sum += double(a[i][r * a.n + k]) * double(b[i][k * b.n + c]);
        result[i][r * b.n + c] = static_cast<T>(sum);
      }
    }
  }
  return result;
}

/// Matrices that are known for trouble, all m x n, in one batch.
template <class T>
batch_of<T> difficult_batch(std::int64_t m, std::int64_t n) {
  std::vector<std::function<void(T*)>> makers;
  const auto entries = [&](auto f) {
    makers.push_back([=](T* a) {
      for (std::int64_t r = 0; r < m; ++r) {
        for (std::int64_t c = 0; c < n; ++c) a[r * n + c] = f(r, c);
      }
    });
  };
  const std::vector<T> numbers = random_numbers<T>(m * n, 99);
  const auto x = [=](std::int64_t r, std::int64_t c) { return numbers[static_cast<std::size_t>(r * n + c)]; };
  const auto power = [](double base, double exponent) { return static_cast<T>(std::pow(base, exponent)); };
  entries([](auto, auto) { return T(0); });
  entries([](auto r, auto c) { return T(r == c); });
  entries([](auto r, auto c) { return T(r + c == 5); });
  entries([](auto, auto) { return T(1); });
  entries([=](auto r, auto c) { return x(r % 3, c); });              // duplicates of rows
  entries([=](auto r, auto c) { return x(r, c % 4); });              // duplicates of columns
  entries([=](auto r, auto c) { return r == 2 ? T(0) : x(r, c); });  // a row of zeros
  entries([=](auto r, auto c) { return x(r, c) * T(1e-30); });
  entries([=](auto r, auto c) { return x(r, c) * T(1e+30); });
  entries([=](auto r, auto c) { return x(r, c) * std::numeric_limits<T>::max() / T(16); });
  for (const double condition : {1e1, 1e3, 1e6, 1e9, 1e12}) {  // graded, by columns and by rows, falling and rising
    entries([=](auto r, auto c) { return x(r, c) * power(condition, -double(c) / double(n)); });
    entries([=](auto r, auto c) { return x(r, c) * power(condition, double(c) / double(n)); });
    entries([=](auto r, auto c) { return x(r, c) * power(condition, -double(r) / double(m)); });
    entries([=](auto r, auto c) { return T(r == c) * power(condition, double(c) / double(n)); });
    entries([=](auto r, auto c) { return (r == c || r + 1 == c) ? power(condition, -double(r) / double(m)) : T(0); });
  }
  entries([=](auto r, auto c) { return T(r == c || r + 1 == c); });  // a bidiagonal of ones
  entries([=](auto r, auto c) { return T(r + 1 == c); });            // nilpotent: zeros on the diagonal
  entries([=](auto r, auto c) { return T(r == c ? (r % 3 == 1 ? 0 : 1) : r + 1 == c ? 1 : 0); });
  entries([=](auto r, auto c) { return c <= r ? T(1) : T(0); });
  entries([=](auto r, auto c) { return T(1) / T(r + c + 1); });  // Hilbert
  batch_of<T> a{static_cast<std::int64_t>(makers.size()), m, n, {}};
  a.numbers.resize(makers.size() * static_cast<std::size_t>(m * n));
  for (std::size_t i = 0; i < makers.size(); ++i) makers[i](a[static_cast<std::int64_t>(i)]);
  return a;
}

class svd_test : public device_test {
 protected:
  /// Calls `call` with a number of each type that the device computes in.
  template <class Call>
  void for_types(Call call) {
    call(float());
    if (has_fp64()) call(double());
  }

  /// The algorithms that the device can run.
  std::vector<svd_algorithm> algorithms() const {
    std::vector<svd_algorithm> result{svd_algorithm::bidiagonal, svd_algorithm::jacobi};
    if (detail::lapack_path<float>::serves(queue_)) result.push_back(svd_algorithm::lapack);
    return result;
  }
};

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

TEST_P(svd_test, jacobi_with_many_work_items_a_matrix) {  // as on a GPU
  for_types([&]<class T>(T) {
    for (const detail::jacobi_shape shape : {detail::jacobi_shape{false, 1}, {false, 32}, {false, 48}}) {
      for (const batch_of<T>& a : {difficult_batch<T>(20, 17), random_batch<T>(3, 150, 64)}) {
        SCOPED_TRACE(testing::Message() << shape.group << " work-items, " << a.m << " x " << a.n);
        tensor<T> s(queue_, {a.batch, a.n}), u(queue_, {a.batch, a.m, a.n}), vt(queue_, {a.batch, a.n, a.n});
        tensor<std::int32_t> status(queue_, {a.batch});
        const tensor<T> input(queue_, {a.batch, a.m, a.n}, a.numbers);
        const detail::svd_problem<T> problem{input.template as<3>(),
                                             s.template as<2>(),
                                             u.template as<3>(),
                                             transposed(vt.template as<3>()),
                                             status.as<1>(),
                                             {},
                                             a.n,
                                             0};
        tensor<std::byte> scratch(queue_, {detail::jacobi_path<T>::scratch_bytes(queue_, problem, shape)});
        detail::jacobi_path<T>::run(queue_, problem, shape, scratch.data(), {}).wait_and_throw();
        const host_svd<T> got{s.to_host(), u.to_host(), vt.to_host(), status.to_host(), {}};
        for (std::int64_t b = 0; b < a.batch; ++b) check_matrix(a, b, got, svd_vectors::thin);
      }
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

TEST_P(svd_test, a_matrix_gives_the_same_bits_wherever_it_stands) {
  for_types([&]<class T>(T) {
    batch_of<T> a = difficult_batch<T>(21, 18);
    const batch_of<T> b = random_batch<T>(a.batch, 21, 18);
    a.numbers.insert(a.numbers.end(), b.numbers.begin(), b.numbers.end());
    a.batch *= 2;
    batch_of<T> turned = a;  // the last comes first
    for (std::int64_t i = 0; i < a.batch; ++i) std::copy_n(a[i], a.size(), turned[a.batch - 1 - i]);
    const auto same = [&](const std::vector<T>& x, const std::vector<T>& y, bool is_turned, const char* name) {
      const std::int64_t size = static_cast<std::int64_t>(x.size()) / a.batch;
      for (std::int64_t i = 0; i < a.batch; ++i) {
        const std::int64_t j = is_turned ? a.batch - 1 - i : i;
        EXPECT_EQ(std::memcmp(&x[std::size_t(i * size)], &y[std::size_t(j * size)], std::size_t(size) * sizeof(T)), 0)
            << name << " of matrix " << i;
      }
    };
    for (const svd_algorithm algorithm : algorithms()) {
      SCOPED_TRACE(int(algorithm));
      const svd_options options{svd_vectors::thin, algorithm};
      const host_svd<T> got = run(queue_, a, options), again = run(queue_, a, options);
      const host_svd<T> other = run(queue_, turned, options);
      same(got.s, again.s, false, "s");
      same(got.u, again.u, false, "u");
      same(got.vt, again.vt, false, "vt");
      same(got.s, other.s, true, "s, turned");
      same(got.u, other.u, true, "u, turned");
      same(got.vt, other.vt, true, "vt, turned");
    }
  });
}

TEST_P(svd_test, not_finite_matrices_are_named_and_do_not_spread) {
  for_types([&]<class T>(T) {
    batch_of<T> a = random_batch<T>(20, 12, 10);
    const batch_of<T> before = a;
    a[3][17] = std::numeric_limits<T>::quiet_NaN();
    a[18][0] = -std::numeric_limits<T>::infinity();
    for (const svd_algorithm algorithm : algorithms()) {
      const svd_options options{svd_vectors::thin, algorithm};
      const host_svd<T> clean = run(queue_, before, options), got = run(queue_, a, options);
      for (std::int64_t b = 0; b < a.batch; ++b) {
        const bool is_bad = b == 3 || b == 18;
        EXPECT_EQ(got.status[std::size_t(b)], is_bad ? svd_not_finite : svd_converged);
        for (std::int64_t i = 0; i < 10; ++i) {
          const std::size_t at = std::size_t(b * 10 + i);
          EXPECT_TRUE(is_bad ? std::isnan(got.s[at]) : got.s[at] == clean.s[at]) << b;
        }
        for (std::int64_t i = 0; i < 120; ++i) {
          const std::size_t at = std::size_t(b * 120 + i);
          EXPECT_TRUE(is_bad ? std::isnan(got.u[at]) : got.u[at] == clean.u[at]) << b;
        }
        for (std::int64_t i = 0; i < 100; ++i) {
          const std::size_t at = std::size_t(b * 100 + i);
          EXPECT_TRUE(is_bad ? std::isnan(got.vt[at]) : got.vt[at] == clean.vt[at]) << b;
        }
      }
    }
    const tensor<T> input(queue_, {20, 12, 10}, a.numbers);
    try {
      svd(queue_, input);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const computation_error& failure) {
      EXPECT_EQ(failure.failed_batch_ids(), (std::vector<std::int64_t>{3, 18}));
      EXPECT_STREQ(failure.what(),
                   "svd: 2 of 20 matrices of (12 x 10) failed; the first is matrix 3, which holds NaN or infinity");
    }
  });
}

TEST_P(svd_test, too_few_sweeps_are_reported) {
  const batch_of<float> a = random_batch<float>(18, 20, 20);
  const host_svd<float> got = run(queue_, a, {.algorithm = svd_algorithm::bidiagonal, .max_sweeps = 2});
  for (std::int64_t b = 0; b < a.batch; ++b) {
    EXPECT_EQ(got.status[std::size_t(b)], svd_not_converged);
    EXPECT_EQ(got.sweeps[std::size_t(b)], 2);
    EXPECT_LT(orthogonality(&got.u[std::size_t(400 * b)], 20, 20, 20, 1), bound);
  }
  const host_svd<float> enough = run(queue_, a, {.algorithm = svd_algorithm::bidiagonal});
  for (const std::int32_t sweeps : enough.sweeps) {
    EXPECT_GT(sweeps, 5);
    EXPECT_LT(sweeps, 60);
  }
}

TEST_P(svd_test, strided_views_and_one_matrix_for_the_whole_batch) {
  // a is every second row and column of a larger array, transposed; u and vt lie column-major with gaps
  constexpr std::int64_t batch = 5, m = 9, n = 6;
  const std::vector<float> numbers = random_numbers<float>(batch * 2 * n * 2 * m, 5);
  const tensor<float> memory(queue_, {batch, 2 * n, 2 * m}, numbers);
  const view<const float, 3> a{memory.data(), {batch, m, n}, {4 * n * m, 2, 4 * m}};
  tensor<float> s(queue_, {batch, 2 * n}), u(queue_, {batch, n, m + 3}), vt(queue_, {n, batch, n});
  tensor<std::int32_t> status(queue_, {batch});
  tensor<std::byte> scratchpad(queue_, {svd_scratchpad_size<float>(queue_, batch, m, n)});
  const std::span<std::byte> scratch(scratchpad.data(), std::size_t(scratchpad.size()));
  const view<float, 2> s_view{s.data(), {batch, n}, {2 * n, 2}};
  const view<float, 3> u_view{u.data(), {batch, m, n}, {n * (m + 3), 1, m + 3}};
  const view<float, 3> vt_view{vt.data(), {batch, n, n}, {n, n * batch, 1}};
  svd<float>(queue_, a, s_view, u_view, vt_view, status.as<1>(), {}, scratch).wait_and_throw();
  const auto gather = [&](const auto& x, const std::vector<float>& host, const float* base) {
    std::vector<float> packed;
    for (std::int64_t b = 0; b < x.extent[0]; ++b) {
      for (std::int64_t r = 0; r < x.extent[1]; ++r) {
        if constexpr (std::is_same_v<decltype(x), const view<float, 2>&>) {
          packed.push_back(host[std::size_t(&x(b, r) - base)]);
        } else {
          for (std::int64_t c = 0; c < x.extent[2]; ++c) packed.push_back(host[std::size_t(&x(b, r, c) - base)]);
        }
      }
    }
    return packed;
  };
  host_svd<float> got{gather(s_view, s.to_host(), s.data()),
                      gather(u_view, u.to_host(), u.data()),
                      gather(vt_view, vt.to_host(), vt.data()),
                      status.to_host(),
                      {}};
  const batch_of<float> packed{batch, m, n, gather(a, numbers, memory.data())};
  for (std::int64_t b = 0; b < batch; ++b) check_matrix(packed, b, got, svd_vectors::thin);

  const view<const float, 3> repeated{memory.data(), {batch, m, n}, {0, 2, 4 * m}};
  svd<float>(queue_, repeated, s_view, u_view, vt_view, status.as<1>(), {}, scratch).wait_and_throw();
  const std::vector<float> values = gather(s_view, s.to_host(), s.data());
  for (std::int64_t i = 0; i < batch * n; ++i) EXPECT_EQ(values[std::size_t(i)], got.s[std::size_t(i % n)]);
}

TEST_P(svd_test, ranks_by_relative_and_absolute_tolerance) {
  const tensor<float> s(queue_, {3, 4}, std::vector<float>{10, 1, 1e-3f, 0, 0, 0, 0, 0, NAN, NAN, NAN, NAN});
  tensor<std::int64_t> rank(queue_, {3});
  const auto ranks = [&](float rtol, float atol) {
    numerical_rank<float>(queue_, s.as<2>(), 4, 9, rtol, atol, rank.as<1>()).wait_and_throw();
    return rank.to_host();
  };
  using ids = std::vector<std::int64_t>;
  EXPECT_EQ(ranks(-1, 0), (ids{3, 0, -1}));
  EXPECT_EQ(ranks(1e-2f, 0), (ids{2, 0, -1}));
  EXPECT_EQ(ranks(1e-2f, 5), (ids{1, 0, -1}));
  EXPECT_EQ(ranks(0, 1e-4f), (ids{3, 0, -1}));
}

TEST_P(svd_test, waits_for_its_dependencies) {
  sycl::queue out_of_order(GetParam());
  const batch_of<float> a = random_batch<float>(40, 16, 16);
  const tensor<float> host_copy(out_of_order, {40, 16, 16}, a.numbers);
  tensor<float> input(out_of_order, {40, 16, 16});
  input.copy_from(std::vector<float>(a.numbers.size(), 0.0f));
  tensor<float> s(out_of_order, {40, 16});
  tensor<std::int32_t> status(out_of_order, {40});
  const svd_options options{svd_vectors::none};
  tensor<std::byte> scratchpad(out_of_order, {svd_scratchpad_size<float>(out_of_order, 40, 16, 16, options)});
  sycl::event filled;
  for (int i = 0; i < 50; ++i) {  // long enough that a svd that does not wait sees zeros
    filled = out_of_order.memcpy(input.data(), host_copy.data(), a.numbers.size() * sizeof(float), filled);
  }
  svd<float>(out_of_order, input.as<3>(), s.as<2>(), {}, {}, status.as<1>(), {},
             {scratchpad.data(), std::size_t(scratchpad.size())}, options, {filled})
      .wait_and_throw();
  EXPECT_EQ(s.to_host(), run(queue_, a, options).s);
}

TEST_P(svd_test, bad_arguments_are_named) {
  tensor<float> a(queue_, {2, 5, 4}), s(queue_, {2, 4}), u(queue_, {2, 5, 4}), vt(queue_, {2, 4, 4});
  tensor<std::int32_t> status(queue_, {2});
  tensor<std::byte> scratchpad(queue_, {svd_scratchpad_size<float>(queue_, 2, 5, 4)});
  const std::span<std::byte> scratch(scratchpad.data(), std::size_t(scratchpad.size()));
  const view<const float, 3> input = a.as<3>();
  const auto message = [&](view<const float, 3> in, view<float, 2> values, view<float, 3> left,
                           std::span<std::byte> memory, svd_options options) {
    return message_of<invalid_argument>(
        [&] { svd<float>(queue_, in, values, left, vt.as<3>(), status.as<1>(), {}, memory, options); });
  };
  EXPECT_EQ(message(input, vt.as<3>().data == nullptr ? s.as<2>() : view<float, 2>{s.data(), {2, 3}, {4, 1}}, u.as<3>(),
                    scratch, {}),
            "svd: s (2, 3) with strides (4, 1) should be (2, 4)");
  EXPECT_EQ(message(input, s.as<2>(), u.as<3>(), scratch, {svd_vectors::full}),
            "svd: u (2, 5, 4) with strides (20, 4, 1) should be (2, 5, 5)");
  EXPECT_EQ(message({nullptr, {2, 5, 4}, {20, 4, 1}}, s.as<2>(), u.as<3>(), scratch, {}),
            "svd: a (2, 5, 4) with strides (20, 4, 1) has a null pointer");
  EXPECT_EQ(message({a.data(), {2, 5, 0}, {20, 4, 1}}, s.as<2>(), u.as<3>(), scratch, {}),
            "svd: a (2, 5, 0) has a matrix without elements");
  EXPECT_EQ(message({a.data(), {-2, 5, 4}, {20, 4, 1}}, s.as<2>(), u.as<3>(), scratch, {}),
            "svd: a (-2, 5, 4) with strides (20, 4, 1) has a negative extent");
  EXPECT_EQ(message(input, s.as<2>(), {u.data(), {2, 5, 4}, {20, 3, 1}}, scratch, {}),
            "svd: u (2, 5, 4) with strides (20, 3, 1) has strides that overlap");
  EXPECT_NE(message(input, s.as<2>(), u.as<3>(), scratch.first(16), {}).find("the scratchpad holds 16 elements"),
            std::string::npos);
  EXPECT_EQ(message(input, s.as<2>(), u.as<3>(), scratch, {.max_sweeps = -1}),
            "svd: max_sweeps is -1, it must not be negative");
  EXPECT_EQ(message_of<invalid_argument>([&] { svd(queue_, tensor<float>(queue_, {4})); }),
            "svd: a has shape [4], 2 or 3 dimensions are needed");
  EXPECT_EQ(message_of<invalid_argument>([&] {
              tensor<std::int64_t> rank(queue_, {2});
              numerical_rank<float>(queue_, s.as<2>(), 5, 3, -1, 0, rank.as<1>());
            }),
            "numerical_rank: s (2, 4) with strides (4, 1) does not hold the values of 5 x 3 matrices");
}

TEST_P(svd_test, an_empty_batch_is_nothing_to_do) {
  const svd_result<float> result = svd(queue_, tensor<float>(queue_, {0, 5, 4}));
  EXPECT_EQ(result.s.shape(), (std::vector<std::int64_t>{0, 4}));
}

TEST_P(svd_test, one_matrix_as_a_tensor_of_two_dimensions) {
  const batch_of<float> a = random_batch<float>(1, 7, 5);
  const svd_result<float> result = svd(queue_, tensor<float>(queue_, {7, 5}, a.numbers));
  check_matrix(a, 0, {result.s.to_host(), result.u.to_host(), result.vt.to_host(), result.status.to_host(), {}},
               svd_vectors::thin);
}

INSTANTIATE_TEST_SUITE_P(devices, svd_test, testing::ValuesIn(devices()), device_name);

}  // namespace
}  // namespace nullscope::test

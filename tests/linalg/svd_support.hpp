/// What the tests of svd share: batches of matrices, running a decomposition, and every promise about its result.
#pragma once

#include <cstring>
#include <functional>
#include <nullscope/linalg/svd.hpp>
#include <numeric>

#include "lib/src/linalg/svd_paths.hpp"
#include "tests/linalg/lapack_layouts.hpp"
#ifdef NULLSCOPE_HAS_ONEMKL
#include <mkl_lapacke.h>
#endif

namespace nullscope::test {

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
host_svd<T> run(context& ctx, const batch_of<T>& a, const svd_options& options) {
  const std::int64_t values = std::min(a.m, a.n);
  const bool is_full = options.vectors == svd_vectors::full, has_vectors = options.vectors != svd_vectors::none;
  const tensor<T> input(ctx, {a.batch, a.m, a.n}, a.numbers);
  // results start as rubbish, so that an element that is not written shows
  const auto rubbish = [&](std::vector<std::int64_t> shape) {
    tensor<T> x(ctx, shape);
    x.copy_from(std::vector<T>(static_cast<std::size_t>(x.size()), T(777)));
    return x;
  };
  tensor<T> s = rubbish({a.batch, values});
  tensor<T> u = rubbish({a.batch, a.m, !has_vectors ? 0 : is_full ? a.m : values});
  tensor<T> vt = rubbish({a.batch, !has_vectors ? 0 : is_full ? a.n : values, a.n});
  tensor<std::int32_t> status(ctx, {a.batch}), sweeps(ctx, {a.batch});
  svd(ctx, input, {.s = s, .u = u, .vt = vt, .status = status, .sweeps = sweeps}, options).wait_and_throw();
  EXPECT_EQ(std::memcmp(input.to_host().data(), a.numbers.data(), a.numbers.size() * sizeof(T)), 0) << "a changed";
  return {s.to_host(), u.to_host(), vt.to_host(), status.to_host(), sweeps.to_host()};
}

#ifdef NULLSCOPE_HAS_ONEMKL
/// Singular values by LAPACK in double.
template <class T>
std::vector<double> reference_values(const T* a, std::int64_t m, std::int64_t n) {
  std::vector<double> copy(a, a + m * n), s(static_cast<std::size_t>(std::min(m, n)));
  // the transpose has the same values
  const auto info = LAPACKE_dgesdd(LAPACK_COL_MAJOR, 'N', n, m, copy.data(), n, s.data(), nullptr, 1, nullptr, 1);
  EXPECT_EQ(info, 0);
  return s;
}
#else
/// Singular values by plain Jacobi rotations in double: the rows, or columns if they are fewer, become orthogonal.
template <class T>
std::vector<double> reference_values(const T* a, std::int64_t m, std::int64_t n) {
  const std::int64_t count = std::min(m, n), length = std::max(m, n);
  double largest = 0;
  for (std::int64_t i = 0; i < m * n; ++i) largest = std::max(largest, std::abs(double(a[i])));
  const double unit = largest > 0 ? largest : 1;
  std::vector<std::vector<double>> x(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t j = 0; j < length; ++j) {
      x[std::size_t(i)].push_back(double(m < n ? a[i * n + j] : a[j * n + i]) / unit);
    }
  }
  const auto dot = [](const auto& p, const auto& q) { return std::inner_product(p.begin(), p.end(), q.begin(), 0.0); };
  bool is_done = false;
  for (int sweep = 0; sweep < 60 && !is_done; ++sweep) {
    is_done = true;
    for (std::size_t i = 0; i < x.size(); ++i) {
      for (std::size_t j = i + 1; j < x.size(); ++j) {
        const double alpha = dot(x[i], x[i]), beta = dot(x[j], x[j]), gamma = dot(x[i], x[j]);
        if (std::abs(gamma) <= 1e-15 * std::sqrt(alpha) * std::sqrt(beta)) continue;
        is_done = false;
        const double angle = std::atan2(2 * gamma, alpha - beta) / 2, c = std::cos(angle), s = std::sin(angle);
        for (std::size_t l = 0; l < x[i].size(); ++l) {
          const double p = x[i][l], q = x[j][l];
          x[i][l] = c * p + s * q;
          x[j][l] = c * q - s * p;
        }
      }
    }
  }
  std::vector<double> values;
  for (const auto& row : x) values.push_back(std::sqrt(dot(row, row)) * unit);
  std::sort(values.begin(), values.end(), std::greater{});
  return values;
}
#endif

/// |u diag(s) vt - a|_F / (|a|_F max(m, n) eps) of one matrix of the batch.
template <class T>
double reconstruction(const batch_of<T>& a, std::int64_t b, const host_svd<T>& got, svd_vectors vectors) {
  const std::int64_t m = a.m, n = a.n, values = std::min(m, n);
  const std::int64_t columns = vectors == svd_vectors::full ? m : values;
  const std::int64_t rows = vectors == svd_vectors::full ? n : values;
  const double epsilon = std::numeric_limits<T>::epsilon();
  const T* s = got.s.data() + b * values;
  const T* u = got.u.data() + b * m * columns;
  const T* vt = got.vt.data() + b * rows * n;
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
  return std::sqrt(difference) / (size > 0 ? std::sqrt(size) * double(std::max(m, n)) * epsilon : 1);
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
  double of_values = 0;
  for (std::int64_t i = 0; i < values; ++i) {
    of_values = std::max(of_values, std::abs(double(s[i]) - expected[static_cast<std::size_t>(i)]));
  }
  if (expected[0] > 0) of_values /= expected[0] * double(values) * epsilon;
  EXPECT_LT(of_values, bound) << "values against the reference, matrix " << b;
  if (vectors == svd_vectors::none) return;
  const std::int64_t columns = vectors == svd_vectors::full ? m : values;
  const std::int64_t rows = vectors == svd_vectors::full ? n : values;
  const T* u = got.u.data() + b * m * columns;
  const T* vt = got.vt.data() + b * rows * n;
  EXPECT_LT(orthogonality(u, m, columns, columns, 1), bound) << "u, matrix " << b;
  EXPECT_LT(orthogonality(vt, n, rows, 1, n), bound) << "vt, matrix " << b;
  EXPECT_LT(reconstruction(a, b, got, vectors), bound) << "matrix " << b;
}

template <class T>
void check_all(context& ctx, const batch_of<T>& a, const svd_options& options) {
  SCOPED_TRACE(testing::Message() << name_of(ctx.layout()) << ", " << a.batch << " x " << a.m << " x " << a.n << ", "
                                  << 8 * sizeof(T) << " bits, vectors " << int(options.vectors) << ", algorithm "
                                  << int(options.algorithm));
  const host_svd<T> got = run(ctx, a, options);
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
    if (detail::has_lapack(ctx_)) result.push_back(svd_algorithm::lapack);
    return result;
  }

  /// Calls `call` with a context of every layout.
  template <class Call>
  void for_layouts(Call call) {
    for (const lane_layout& layout : lapack_layouts(GetParam())) {
      SCOPED_TRACE(name_of(layout));
      context ctx(queue_, layout);
      call(ctx);
    }
  }
};

}  // namespace nullscope::test

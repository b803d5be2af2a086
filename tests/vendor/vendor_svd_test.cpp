/// What svd passes to cuSOLVER and rocSOLVER and makes of their results, by stand-ins that decompose on the host.
#include <dlfcn.h>

#include <limits>
#include <nullscope/core/tensor.hpp>

#include "lib/src/linalg/svd_libraries.hpp"
#include "tests/core/support.hpp"
#include "tests/vendor/recorded_svd.hpp"

namespace nullscope::test {
namespace {

/// Decompositions of a batch, on the host.
template <class T>
struct decomposed {
  std::vector<T> a, s, u, vt;
  std::vector<std::int32_t> status, sweeps;
};

enum class solver { cusolver, rocsolver };

class vendor_svd_test : public device_test {
 protected:
  static constexpr std::int64_t batch = 3;

  void SetUp() override {
    if (!GetParam().is_cpu()) GTEST_SKIP() << "the stand-ins work on the host";
  }

  static const char* file_of(solver library) { return library == solver::cusolver ? FAKE_CUSOLVER : FAKE_ROCSOLVER; }

  const recorded_svd& last_call() const {
    void* const handle = dlopen(file_of(library_), RTLD_NOW);
    return *reinterpret_cast<const recorded_svd* (*)()>(dlsym(handle, "last_svd"))();
  }

  template <class T>
  void decompose_by_library(operation& op, const detail::svd_problem<T>& problem) const {
    if (library_ == solver::cusolver) {
      detail::svd_cusolver(op, *detail::cusolver::open(FAKE_CUSOLVER), problem);
    } else {
      detail::svd_rocsolver(op, *detail::rocsolver::open(FAKE_ROCSOLVER), problem);
    }
  }

  template <class T>
  decomposed<T> decompose(std::vector<T> numbers, std::int64_t m, std::int64_t n, std::int64_t u_columns) {
    const auto size = [](std::int64_t count) { return std::max<std::int64_t>(count, 1); };
    tensor<T> a(ctx_, {batch, m, n}, numbers), s(ctx_, {batch, n}), u(ctx_, {size(batch * m * u_columns)}),
        vt(ctx_, {batch, n, n});
    tensor<std::int32_t> status(ctx_, {batch}), sweeps(ctx_, {batch});
    detail::svd_problem<T> problem{};
    problem.a = a;
    problem.s = s;
    problem.status = status;
    problem.sweeps = sweeps;
    problem.u_columns = u_columns;
    if (u_columns > 0) {
      problem.u = contiguous(u.data(), batch, m, u_columns);
      problem.v = transposed(view<T, 3>(vt));
    }
    operation op(ctx_, "test");
    decompose_by_library(op, problem);
    op.submit_and_wait();
    return {std::move(numbers), s.to_host(), u.to_host(), vt.to_host(), status.to_host(), sweeps.to_host()};
  }

  /// a = u diag(s) vt, u^T u = 1, vt vt^T = 1 for matrix b.
  template <class T>
  static void expect_svd(const decomposed<T>& x, std::int64_t b, std::int64_t m, std::int64_t n, std::int64_t columns) {
    const double bound = 20 * static_cast<double>(std::numeric_limits<T>::epsilon() * std::sqrt(T(m)));
    const auto at = [](const std::vector<T>& numbers, std::int64_t index) {
      return static_cast<double>(numbers[static_cast<std::size_t>(index)]);
    };
    const auto u = [&](std::int64_t i, std::int64_t j) { return at(x.u, (b * m + i) * columns + j); };
    const auto vt = [&](std::int64_t i, std::int64_t j) { return at(x.vt, (b * n + i) * n + j); };
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (std::int64_t l = 0; l < n; ++l) sum += u(i, l) * at(x.s, b * n + l) * vt(l, j);
        EXPECT_NEAR(sum, at(x.a, (b * m + i) * n + j), bound * at(x.s, b * n)) << b << ": " << i << " " << j;
      }
    }
    for (std::int64_t i = 0; i < columns; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) {
        double of_u = 0;
        for (std::int64_t l = 0; l < m; ++l) of_u += u(l, i) * u(l, j);
        EXPECT_NEAR(of_u, i == j, bound) << b << ": columns " << i << " " << j;
      }
    }
    for (std::int64_t i = 0; i < n * n; ++i) {
      double of_vt = 0;
      for (std::int64_t l = 0; l < n; ++l) of_vt += vt(i / n, l) * vt(i % n, l);
      EXPECT_NEAR(of_vt, i / n == i % n, bound) << b << ": rows " << i / n << " " << i % n;
    }
    for (std::int64_t i = 1; i < n; ++i) EXPECT_GE(at(x.s, b * n + i - 1), at(x.s, b * n + i));
  }

  template <class T>
  void check(std::int64_t m, std::int64_t n, std::int64_t u_columns, char job) {
    const std::int64_t before = last_call().calls;
    const decomposed<T> x = decompose(random_numbers<T>(batch * m * n, 7), m, n, u_columns);
    EXPECT_EQ(last_call().calls - before, batch);
    EXPECT_EQ(last_call().u_job, job);
    EXPECT_EQ(last_call().vt_job, job == 'N' ? 'N' : 'S');
    EXPECT_TRUE(last_call().has_memory);
    EXPECT_EQ(x.status, std::vector<std::int32_t>(batch, svd_converged));
    EXPECT_EQ(x.sweeps, std::vector<std::int32_t>(batch, 0));
    for (std::int64_t b = 0; b < batch && u_columns > 0; ++b) expect_svd(x, b, m, n, u_columns);
  }

  solver library_ = solver::cusolver;
};

INSTANTIATE_TEST_SUITE_P(devices, vendor_svd_test, testing::ValuesIn(devices()), device_name);

TEST_P(vendor_svd_test, libraries_get_columns_and_their_results_arrive) {
  for (const solver library : {solver::cusolver, solver::rocsolver}) {
    library_ = library;
    check<float>(9, 5, 5, 'S');
    check<float>(9, 5, 9, 'A');
    check<float>(6, 6, 6, 'S');
    check<float>(70, 3, 0, 'N');
    check<float>(1, 1, 1, 'S');
    if (!has_fp64()) continue;
    check<double>(7, 4, 4, 'S');
    check<double>(7, 4, 7, 'A');
  }
}

TEST_P(vendor_svd_test, has_a_status_for_each_matrix) {
  constexpr std::int64_t m = 5, n = 3;
  std::vector<float> numbers = random_numbers<float>(batch * m * n, 3);
  numbers[0] = static_cast<float>(recorded_svd::refused);
  numbers[2 * m * n - 1] = std::numeric_limits<float>::quiet_NaN();
  for (const solver library : {solver::cusolver, solver::rocsolver}) {
    library_ = library;
    const decomposed<float> x = decompose(numbers, m, n, n);
    EXPECT_EQ(x.status, (std::vector<std::int32_t>{svd_not_converged, svd_not_finite, svd_converged}));
    EXPECT_FALSE(last_call().saw_not_finite) << "the library got NaN";
    const auto is_nan = [](float value) { return std::isnan(value); };
    EXPECT_TRUE(std::all_of(x.s.begin() + n, x.s.begin() + 2 * n, is_nan));
    EXPECT_TRUE(std::all_of(x.u.begin() + m * n, x.u.begin() + 2 * m * n, is_nan));
    EXPECT_TRUE(std::all_of(x.vt.begin() + n * n, x.vt.begin() + 2 * n * n, is_nan));
    expect_svd(x, 2, m, n, n);
  }
}

}  // namespace
}  // namespace nullscope::test

/// Batched Cholesky factorisation against oneMKL's potrf with one matrix per thread.
#include <algorithm>
#include <nullscope/core/tensor.hpp>
#include <nullscope/linalg/cholesky.hpp>

#include "bench/core/harness.hpp"
#ifdef NULLSCOPE_HAS_ONEMKL
#include <mkl_lapacke.h>
#include <mkl_service.h>
#endif

namespace nullscope {
namespace {

/// Random symmetric matrices with n on the diagonal.
template <class T>
std::vector<T> definite(std::int64_t batch, std::int64_t n) {
  std::vector<T> a = bench::random_numbers<T>(batch * n * n, 1);
  for (std::int64_t i = 0; i < batch * n; ++i) a[static_cast<std::size_t>(i * n + i % n)] = static_cast<T>(n);
  return a;
}

template <class T>
struct cholesky_data {
  context& ctx;
  std::int64_t batch, n;
  tensor<T> a, l;
  tensor<std::int32_t> status;

  cholesky_data(context& ctx, std::int64_t batch, std::int64_t n)
      : ctx(ctx),
        batch(batch),
        n(n),
        a(ctx, {batch, n, n}, definite<T>(batch, n), sycl::usm::alloc::shared),
        l(ctx, {batch, n, n}, sycl::usm::alloc::shared),
        status(ctx, {batch}, sycl::usm::alloc::shared) {}

  void run() { cholesky(ctx, a, cholesky_results<T>{.l = l, .status = status}).wait(); }

#ifdef NULLSCOPE_HAS_ONEMKL
  /// LAPACK sees the transposes: its upper triangle is the lower one here. What is above the diagonal stays.
  void run_onemkl() {
    bench::parallel_for(batch, [this](std::int64_t begin, std::int64_t end) {
      const int threads = mkl_set_num_threads_local(1);
      for (std::int64_t b = begin; b < end; ++b) {
        T* const matrix = l.data() + b * n * n;
        std::copy_n(a.data() + b * n * n, n * n, matrix);
        lapack_int info = 0;
        if constexpr (std::is_same_v<T, float>) {
          info = LAPACKE_spotrf_work(LAPACK_COL_MAJOR, 'U', n, matrix, n);
        } else {
          info = LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'U', n, matrix, n);
        }
        status.data()[b] = info == 0 ? cholesky_factored : cholesky_not_positive_definite;
      }
      mkl_set_num_threads_local(threads);
    });
  }
#endif

  void clear() {
    std::fill_n(l.data(), l.size(), T(777));
    std::fill_n(status.data(), status.size(), -1);
  }

  /// All must have a factor; the worst residual of some matrices of the batch.
  void verify(bench::report& report) {
    double worst = 0;
    for (std::int64_t b = 0; b < batch; b += std::max<std::int64_t>(1, batch / 4)) {
      const T* const matrix = a.data() + b * n * n;
      const T* const factor = l.data() + b * n * n;
      for (std::int64_t i = 0; i < n; ++i) {
        for (std::int64_t j = 0; j <= i; ++j) {
          double sum = -double(matrix[i * n + j]);
          for (std::int64_t k = 0; k <= j; ++k) sum += double(factor[i * n + k]) * double(factor[j * n + k]);
          worst = worse(worst, std::abs(sum) / (double(n) * double(n + 1) * std::numeric_limits<T>::epsilon()));
        }
      }
    }
    const std::int64_t done = std::count(status.data(), status.data() + batch, cholesky_factored);
    report.residual("failed", static_cast<double>(batch - done), 0);
    report.residual("reconstruction", worst, 10);
  }
};

template <class T>
void add(bench::suite& suite, const char* type, std::int64_t batch, std::int64_t n) {
  const double count = double(batch), size = double(n);
  auto& comparison = suite.add({.operation = "cholesky",
                                .type = type,
                                .sizes = {{"batch", batch}, {"n", n}},
                                .flops = count * size * size * size / 3,
                                .bytes = count * 2 * size * size * sizeof(T)},
                               [=](context& ctx) { return cholesky_data<T>(ctx, batch, n); });
  comparison.path("sycl", [](cholesky_data<T>& data) { data.run(); });
#ifdef NULLSCOPE_HAS_ONEMKL
  comparison.path("onemkl", [](cholesky_data<T>& data) { data.run_onemkl(); });
#endif
  comparison.clear([](cholesky_data<T>& data) { data.clear(); });
  comparison.verify([](cholesky_data<T>& data, bench::report& report) { data.verify(report); });
}

template <class T>
void add_all(bench::suite& suite, const char* type) {
  add<T>(suite, type, 4096, 16);
  add<T>(suite, type, 1024, 32);
  add<T>(suite, type, 256, 64);
  add<T>(suite, type, 64, 128);
  add<T>(suite, type, 16, 256);
}

}  // namespace
}  // namespace nullscope

int main(int argc, char** argv) {
  using namespace nullscope;
  return bench::run(argc, argv, "batched Cholesky factorisations", [](bench::suite& suite) {
    add_all<float>(suite, "f32");
    add_all<double>(suite, "f64");
  });
}

/// Batched SVD, with vectors and values only, against oneMKL's gesdd with one matrix per thread.
#include <algorithm>
#include <nullscope/linalg/svd.hpp>

#include "bench/core/harness.hpp"
#ifdef NULLSCOPE_HAS_ONEMKL
#include <mkl_lapacke.h>
#include <mkl_service.h>
#endif

namespace nullscope {
namespace {

template <class T>
struct svd_data {
  context& ctx;
  svd_options options;
  std::int64_t batch, m, n;
  std::vector<T> host;
  tensor<T> a, s, u, vt;
  tensor<std::int32_t> status, sweeps;

  svd_data(context& ctx, std::int64_t batch, std::int64_t m, std::int64_t n, svd_options options)
      : ctx(ctx),
        options(options),
        batch(batch),
        m(m),
        n(n),
        host(bench::random_numbers<T>(batch * m * n, 1)),
        a(ctx, {batch, m, n}, host, sycl::usm::alloc::shared),
        s(ctx, {batch, values()}, sycl::usm::alloc::shared),
        u(ctx, {batch, m, has_vectors() ? values() : 0}, sycl::usm::alloc::shared),
        vt(ctx, {batch, has_vectors() ? values() : 0, n}, sycl::usm::alloc::shared),
        status(ctx, {batch}, sycl::usm::alloc::shared),
        sweeps(ctx, {batch}) {}

  std::int64_t values() const { return std::min(m, n); }
  bool has_vectors() const { return options.vectors != svd_vectors::none; }

  void run() { svd(ctx, a, {.s = s, .u = u, .vt = vt, .status = status, .sweeps = sweeps}, options).wait(); }

#ifdef NULLSCOPE_HAS_ONEMKL
  /// LAPACK sees the transposes, column-major, so that nothing has to be transposed: its left vectors are the rows of
  /// vt.
  void run_onemkl() {
    bench::parallel_for(batch, [this](std::int64_t begin, std::int64_t end) {
      const int threads = mkl_set_num_threads_local(1);
      std::vector<T> copy(static_cast<std::size_t>(m * n));
      std::vector<lapack_int> integers(static_cast<std::size_t>(8 * values()));
      T size = 0;
      gesdd(begin, copy.data(), &size, -1, integers.data());
      std::vector<T> work(static_cast<std::size_t>(size));
      for (std::int64_t b = begin; b < end; ++b) {
        std::copy_n(a.data() + b * m * n, m * n, copy.data());
        const lapack_int info =
            gesdd(b, copy.data(), work.data(), static_cast<lapack_int>(work.size()), integers.data());
        status.data()[b] = info == 0 ? svd_converged : svd_not_converged;
      }
      mkl_set_num_threads_local(threads);
    });
  }

  /// LAPACK's info: 0 if it converged.
  lapack_int gesdd(std::int64_t b, T* matrix, T* work, lapack_int size, lapack_int* integers) {
    const char job = has_vectors() ? 'S' : 'N';
    T* const values_out = s.data() + b * values();
    T* const rows = has_vectors() ? vt.data() + b * values() * n : nullptr;
    T* const columns = has_vectors() ? u.data() + b * m * values() : nullptr;
    if constexpr (std::is_same_v<T, float>) {
      return LAPACKE_sgesdd_work(LAPACK_COL_MAJOR, job, n, m, matrix, n, values_out, rows, n, columns, values(), work,
                                 size, integers);
    } else {
      return LAPACKE_dgesdd_work(LAPACK_COL_MAJOR, job, n, m, matrix, n, values_out, rows, n, columns, values(), work,
                                 size, integers);
    }
  }
#endif

  void clear() {
    for (tensor<T>* x : {&s, &u, &vt}) std::fill_n(x->data(), x->size(), T(777));
    std::fill_n(status.data(), status.size(), -1);
  }

  /// All must have converged; the worst residuals of some matrices of the batch.
  void verify(bench::report& report) {
    constexpr double eps = std::numeric_limits<T>::epsilon();
    double reconstruction = 0, u_orthogonality = 0, v_orthogonality = 0, value_error = 0;
    for (std::int64_t b = 0; b < batch; b += std::max<std::int64_t>(1, batch / 4)) {
      value_error = worse(value_error, error_of_values(b));
      if (!has_vectors()) continue;
      const T* left = u.data() + b * m * values();
      const T* right = vt.data() + b * values() * n;
      u_orthogonality = worse(u_orthogonality, orthogonality(left, m, values(), values(), 1));
      v_orthogonality = worse(v_orthogonality, orthogonality(right, n, values(), 1, n));
      double difference = 0, size = 0;
      for (std::int64_t r = 0; r < m; ++r) {
        for (std::int64_t c = 0; c < n; ++c) {
          const double element = host[static_cast<std::size_t>((b * m + r) * n + c)];
          double sum = -element;
          for (std::int64_t i = 0; i < values(); ++i) {
            sum += double(left[r * values() + i]) * double(s.data()[b * values() + i]) * double(right[i * n + c]);
          }
          difference += sum * sum;
          size += element * element;
        }
      }
      reconstruction = worse(reconstruction, std::sqrt(difference / size) / (double(std::max(m, n)) * eps));
    }
    const std::int64_t converged = std::count(status.data(), status.data() + batch, svd_converged);
    report.residual("failed", static_cast<double>(batch - converged), 0);
    report.residual("values", value_error, 10);
    if (!has_vectors()) return;
    report.residual("reconstruction", reconstruction, 10);
    report.residual("u_orthogonality", u_orthogonality, 10);
    report.residual("v_orthogonality", v_orthogonality, 10);
  }

  /// Against LAPACK in double; without it, the sum of squares against that of the matrix.
  double error_of_values(std::int64_t b) const {
    const T* got = s.data() + b * values();
    const T* matrix = host.data() + b * m * n;
    double difference = 0, largest = 0;
#ifdef NULLSCOPE_HAS_ONEMKL
    std::vector<double> copy(matrix, matrix + m * n), expected(static_cast<std::size_t>(values()));
    LAPACKE_dgesdd(LAPACK_COL_MAJOR, 'N', n, m, copy.data(), n, expected.data(), nullptr, 1, nullptr, 1);
    for (std::int64_t i = 0; i < values(); ++i) {
      difference = worse(difference, std::abs(got[i] - expected[static_cast<std::size_t>(i)]));
    }
    largest = expected[0];
#else
    for (std::int64_t i = 0; i < m * n; ++i) largest += double(matrix[i]) * double(matrix[i]);
    for (std::int64_t i = 0; i < values(); ++i) difference += double(got[i]) * double(got[i]);
    difference = std::abs(difference - largest);
#endif
    return difference / (largest * double(values()) * std::numeric_limits<T>::epsilon());
  }
};

template <class T>
void add(bench::suite& suite, const char* type, svd_vectors vectors, std::int64_t batch, std::int64_t m,
         std::int64_t n) {
  const double count = double(batch), large = double(std::max(m, n)), small = double(std::min(m, n));
  const bool has_vectors = vectors != svd_vectors::none;
  // Golub and Van Loan's counts: with thin vectors; values only
  const double flops = has_vectors ? 14 * large * small * small + 8 * small * small * small
                                   : 4 * large * small * small - 4 * small * small * small / 3;
  const double numbers = has_vectors ? 2 * large * small + small * small + small : large * small + small;
  auto& comparison = suite.add({.operation = has_vectors ? "svd" : "svd_values",
                                .type = type,
                                .sizes = {{"batch", batch}, {"m", m}, {"n", n}},
                                .flops = count * flops,
                                .bytes = count * numbers * sizeof(T)},
                               [=](context& ctx) { return svd_data<T>(ctx, batch, m, n, {.vectors = vectors}); });
  comparison.path("sycl", [](svd_data<T>& data) { data.run(); });
#ifdef NULLSCOPE_HAS_ONEMKL
  comparison.path("onemkl", [](svd_data<T>& data) { data.run_onemkl(); });
#endif
  comparison.clear([](svd_data<T>& data) { data.clear(); });
  comparison.verify([](svd_data<T>& data, bench::report& report) { data.verify(report); });
}

template <class T>
void add_all(bench::suite& suite, const char* type) {
  for (const svd_vectors vectors : {svd_vectors::thin, svd_vectors::none}) {
    add<T>(suite, type, vectors, 1024, 32, 32);
    add<T>(suite, type, vectors, 256, 64, 64);
    add<T>(suite, type, vectors, 64, 128, 128);
    add<T>(suite, type, vectors, 32, 256, 256);
    add<T>(suite, type, vectors, 32, 768, 64);
    add<T>(suite, type, vectors, 1, 128, 128);
  }
}

}  // namespace
}  // namespace nullscope

int main(int argc, char** argv) {
  using namespace nullscope;
  return bench::run(argc, argv, "batched singular value decompositions", [](bench::suite& suite) {
    add_all<float>(suite, "f32");
    add_all<double>(suite, "f64");
  });
}

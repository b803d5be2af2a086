/// Batched QR with explicit Q, and R alone, against LAPACK's geqrf and orgqr with one matrix per thread.
#include <algorithm>
#include <nullscope/core/tensor.hpp>
#include <nullscope/linalg/qr.hpp>

#include "bench/core/harness.hpp"

#ifdef NULLSCOPE_HAS_ONEMKL
#include <mkl_lapacke.h>
#endif

namespace nullscope::bench {
namespace {

template <class T>
struct qr_data {
  qr_data(context& ctx, std::int64_t batch, std::int64_t m, std::int64_t n, bool with_q)
      : ctx(ctx),
        batch(batch),
        m(m),
        n(n),
        with_q(with_q),
        numbers(random_numbers<T>(batch * m * n, 1)),
        a(ctx, {batch, m, n}, numbers),
        q(ctx, {batch, m, std::min(m, n)}, sycl::usm::alloc::shared),
        r(ctx, {batch, std::min(m, n), n}, sycl::usm::alloc::shared) {}

  context& ctx;
  std::int64_t batch, m, n;
  bool with_q;
  std::vector<T> numbers;
  tensor<T> a, q, r;
};

template <class T>
void run_sycl(qr_data<T>& d) {
  if (d.with_q) {
    qr(d.ctx, d.a, {.q = d.q, .r = d.r}).wait();
  } else {
    qr(d.ctx, d.a, {.r = d.r}).wait();
  }
}

#ifdef NULLSCOPE_HAS_ONEMKL
/// LAPACK overwrites its input, so a is copied first, as a caller would have to.
template <class T>
void run_lapack(qr_data<T>& d) {
  const std::int64_t m = d.m, n = d.n, k = std::min(m, n);
  parallel_for(d.batch, [&](std::int64_t begin, std::int64_t end) {
    std::vector<T> work(static_cast<std::size_t>(m * n)), tau(static_cast<std::size_t>(k));
    for (std::int64_t index = begin; index < end; ++index) {
      // column-major, LAPACK's own order: no time is spent on transposing
      std::copy_n(d.numbers.begin() + index * m * n, m * n, work.begin());
      if constexpr (std::is_same_v<T, float>) {
        LAPACKE_sgeqrf(LAPACK_COL_MAJOR, m, n, work.data(), m, tau.data());
      } else {
        LAPACKE_dgeqrf(LAPACK_COL_MAJOR, m, n, work.data(), m, tau.data());
      }
      T* r = d.r.data() + index * k * n;
      for (std::int64_t i = 0; i < k; ++i) {
        for (std::int64_t j = 0; j < n; ++j) r[i * n + j] = j < i ? T(0) : work[static_cast<std::size_t>(j * m + i)];
      }
      if (!d.with_q) continue;
      if constexpr (std::is_same_v<T, float>) {
        LAPACKE_sorgqr(LAPACK_COL_MAJOR, m, k, k, work.data(), m, tau.data());
      } else {
        LAPACKE_dorgqr(LAPACK_COL_MAJOR, m, k, k, work.data(), m, tau.data());
      }
      std::copy_n(work.begin(), m * k, d.q.data() + index * m * k);
    }
  });
}
#endif

/// Scaled orthogonality and reconstruction of the first matrix; `column_major` says how the path stores a and q.
template <class T>
void verify(qr_data<T>& d, report& found, bool column_major) {
  const std::int64_t m = d.m, n = d.n, k = std::min(m, n);
  const auto a = [&](std::int64_t i, std::int64_t j) {
    return static_cast<double>(d.numbers[static_cast<std::size_t>(column_major ? j * m + i : i * n + j)]);
  };
  const auto q = [&](std::int64_t i, std::int64_t j) {
    return static_cast<double>(d.q.data()[column_major ? j * m + i : i * k + j]);
  };
  const double depth = static_cast<double>(k) * static_cast<double>(std::numeric_limits<T>::epsilon());
  const std::int64_t columns = std::min<std::int64_t>(k, 16);  // enough to see an error, and quick
  double orthogonality = 0, difference = 0, norm = 0;
  for (std::int64_t j = 0; j < columns; ++j) {
    const std::int64_t c = j * (k - 1) / std::max<std::int64_t>(columns - 1, 1);
    if (d.with_q) {
      for (std::int64_t l = 0; l < k; ++l) {
        double sum = l == c ? -1 : 0;
        for (std::int64_t i = 0; i < m; ++i) sum += q(i, c) * q(i, l);
        orthogonality += sum * sum;
      }
      for (std::int64_t i = 0; i < m; ++i) {
        double sum = 0;
        for (std::int64_t l = 0; l <= c; ++l) sum += q(i, l) * static_cast<double>(d.r.data()[l * n + c]);
        difference += (sum - a(i, c)) * (sum - a(i, c));
        norm += a(i, c) * a(i, c);
      }
    } else {  // R^T R = A^T A
      for (std::int64_t l = 0; l < k; ++l) {
        double product = 0, expected = 0;
        for (std::int64_t i = 0; i < k; ++i) {
          product += static_cast<double>(d.r.data()[i * n + c]) * static_cast<double>(d.r.data()[i * n + l]);
        }
        for (std::int64_t i = 0; i < m; ++i) expected += a(i, c) * a(i, l);
        difference += (product - expected) * (product - expected);
        norm += expected * expected;
      }
    }
  }
  if (d.with_q) found.residual("orthogonality", std::sqrt(orthogonality) / depth, 10);
  found.residual("reconstruction", std::sqrt(difference / norm) / depth, 10);
}

template <class T>
void add(suite& suite, std::int64_t batch, std::int64_t m, std::int64_t n, bool with_q) {
  const double k = static_cast<double>(std::min(m, n)), mm = static_cast<double>(m), nn = static_cast<double>(n);
  const double flops = 2 * k * k * (std::max(mm, nn) - k / 3) * (with_q ? 2 : 1);
  const double numbers = mm * nn + k * nn + (with_q ? mm * k : 0);
  auto column_major = std::make_shared<bool>(false);
  suite
      .add({.operation = with_q ? "qr" : "qr_r",
            .type = type_name<T>(),
            .sizes = {{"batch", batch}, {"m", m}, {"n", n}},
            .flops = static_cast<double>(batch) * flops,
            .bytes = static_cast<double>(batch) * numbers * sizeof(T)},
           [=](context& ctx) { return qr_data<T>(ctx, batch, m, n, with_q); })
      .path("sycl",
            [=](qr_data<T>& d) {
              *column_major = false;
              run_sycl(d);
            })
#ifdef NULLSCOPE_HAS_ONEMKL
      .path("onemkl",
            [=](qr_data<T>& d) {
              *column_major = true;
              run_lapack(d);
            })
#endif
      .clear([](qr_data<T>& d) {
        std::fill_n(d.q.data(), d.q.size(), T(NAN));
        std::fill_n(d.r.data(), d.r.size(), T(NAN));
      })
      .verify([=](qr_data<T>& d, report& found) { verify(d, found, *column_major); });
}

}  // namespace
}  // namespace nullscope::bench

int main(int argc, char** argv) {
  using namespace nullscope::bench;
  return run(argc, argv, "Batched QR with explicit Q (qr) and R alone (qr_r)", [](suite& suite) {
    add<float>(suite, 144, 2048, 64, true);
    add<float>(suite, 144, 2048, 64, false);
    add<float>(suite, 1024, 32, 32, true);
    add<float>(suite, 256, 128, 64, true);
    add<float>(suite, 144, 768, 64, false);
    add<float>(suite, 1, 131072, 64, true);
    add<float>(suite, 2, 4096, 512, true);
    add<float>(suite, 4, 512, 512, true);
    add<double>(suite, 32, 2048, 64, true);
  });
}

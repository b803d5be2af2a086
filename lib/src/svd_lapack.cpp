#include "svd_paths.hpp"

#ifdef NULLSCOPE_HAS_ONEMKL

#include <mkl_lapacke.h>
#include <mkl_service.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <nullscope/device.hpp>
#include <thread>

namespace nullscope::detail {

namespace {

/// LAPACK sees the transpose, column-major, so that nothing has to be transposed: its left vectors are V.
lapack_int gesdd(char job, std::int64_t m, std::int64_t n, std::int64_t u_columns, float* a, float* s, float* v,
                 float* u, float* work, lapack_int size, lapack_int* integers) {
  return LAPACKE_sgesdd_work(LAPACK_COL_MAJOR, job, n, m, a, n, s, v, n, u, std::max<std::int64_t>(1, u_columns), work,
                             size, integers);
}

lapack_int gesdd(char job, std::int64_t m, std::int64_t n, std::int64_t u_columns, double* a, double* s, double* v,
                 double* u, double* work, lapack_int size, lapack_int* integers) {
  return LAPACKE_dgesdd_work(LAPACK_COL_MAJOR, job, n, m, a, n, s, v, n, u, std::max<std::int64_t>(1, u_columns), work,
                             size, integers);
}

/// What one thread works in, in bytes from the start of its part of the scratchpad.
template <class T>
struct workspace {
  char job;
  lapack_int work_size;
  std::int64_t a, s, u, v, work, integers, size;

  explicit workspace(const svd_problem<T>& problem) {
    const std::int64_t m = problem.m(), n = problem.n(), columns = problem.u_columns;
    job = columns == 0 ? 'N' : columns == m && m > n ? 'A' : 'S';
    T best = 0, unused = 0;
    lapack_int unused_integer = 0;
    gesdd(job, m, n, columns, &unused, &unused, &unused, &unused, &best, -1, &unused_integer);
    // the size comes as a number of type T, which may have been rounded down
    work_size = static_cast<lapack_int>(double(best) * (1 + double(std::numeric_limits<T>::epsilon()))) + 1;
    std::int64_t end = 0;
    const auto place = [&end](std::int64_t count, std::size_t bytes) {
      const std::int64_t begin = end;
      end += (count * static_cast<std::int64_t>(bytes) + 63) / 64 * 64;
      return begin;
    };
    a = place(m * n, sizeof(T));
    s = place(n, sizeof(T));
    u = place(m * columns, sizeof(T));
    v = place(columns > 0 ? n * n : 0, sizeof(T));
    work = place(work_size, sizeof(T));
    integers = place(8 * n, sizeof(lapack_int));
    size = end;
  }
};

template <class T>
std::int64_t thread_count(const sycl::queue& queue, const svd_problem<T>& problem) {
  return std::min(problem.batch(), properties(queue.get_device()).compute_units);
}

template <class T>
void decompose(const svd_problem<T>& problem, const workspace<T>& space, std::byte* memory, std::int64_t b) {
  const std::int64_t m = problem.m(), n = problem.n(), columns = problem.u_columns;
  T* const a = reinterpret_cast<T*>(memory + space.a);
  T* const s = reinterpret_cast<T*>(memory + space.s);
  T* const u = reinterpret_cast<T*>(memory + space.u);
  T* const v = reinterpret_cast<T*>(memory + space.v);
  bool is_finite = true;
  for (std::int64_t r = 0; r < m; ++r) {
    for (std::int64_t c = 0; c < n; ++c) {
      a[r * n + c] = problem.a(b, r, c);
      is_finite = is_finite && std::isfinite(a[r * n + c]);
    }
  }
  lapack_int info = 0;
  if (is_finite) {
    info = gesdd(space.job, m, n, columns, a, s, v, u, reinterpret_cast<T*>(memory + space.work), space.work_size,
                 reinterpret_cast<lapack_int*>(memory + space.integers));
  }
  problem.status(b) = !is_finite ? svd_not_finite : info != 0 ? svd_not_converged : svd_converged;
  if (problem.sweeps.data != nullptr) problem.sweeps(b) = 0;
  const auto store = [is_finite](T& to, T x) { to = is_finite ? x : std::numeric_limits<T>::quiet_NaN(); };
  for (std::int64_t i = 0; i < n; ++i) store(problem.s(b, i), s[i]);
  if (columns == 0) return;
  for (std::int64_t r = 0; r < m; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) store(problem.u(b, r, c), u[r * columns + c]);
  }
  for (std::int64_t r = 0; r < n; ++r) {
    for (std::int64_t c = 0; c < n; ++c) store(problem.v(b, r, c), v[c * n + r]);
  }
}

}  // namespace

template <class T>
bool lapack_path<T>::serves(const sycl::queue& queue) {
  return properties(queue.get_device()).kind == device_kind::cpu;
}

template <class T>
std::int64_t lapack_path<T>::scratch_bytes(const sycl::queue& queue, const svd_problem<T>& problem) {
  return thread_count(queue, problem) * workspace<T>(problem).size;
}

template <class T>
sycl::event lapack_path<T>::run(sycl::queue& queue, const svd_problem<T>& problem, void* scratch,
                                const std::vector<sycl::event>& dependencies) {
  const workspace<T> space(problem);
  const std::int64_t threads = thread_count(queue, problem);
  return queue.submit([&](sycl::handler& handler) {
    handler.depends_on(dependencies);
    handler.host_task([=] {
      std::atomic<std::int64_t> next = 0;
      const auto work = [&](std::int64_t thread) {
        // many matrices: one a thread; one large matrix: oneMKL's own threads
        const bool is_alone = threads > 1 || problem.n() < 256;
        const int before = is_alone ? mkl_set_num_threads_local(1) : 0;
        std::byte* const memory = static_cast<std::byte*>(scratch) + thread * space.size;
        for (std::int64_t b = next++; b < problem.batch(); b = next++) decompose(problem, space, memory, b);
        if (is_alone) mkl_set_num_threads_local(before);
      };
      std::vector<std::jthread> others;
      for (std::int64_t thread = 1; thread < threads; ++thread) others.emplace_back(work, thread);
      work(0);
    });
  });
}

template struct lapack_path<float>;
template struct lapack_path<double>;

}  // namespace nullscope::detail

#else

namespace nullscope::detail {

template <class T>
bool lapack_path<T>::serves(const sycl::queue&) {
  return false;
}
template <class T>
std::int64_t lapack_path<T>::scratch_bytes(const sycl::queue&, const svd_problem<T>&) {
  return 0;
}
template <class T>
sycl::event lapack_path<T>::run(sycl::queue&, const svd_problem<T>&, void*, const std::vector<sycl::event>&) {
  return {};
}

template struct lapack_path<float>;
template struct lapack_path<double>;

}  // namespace nullscope::detail

#endif

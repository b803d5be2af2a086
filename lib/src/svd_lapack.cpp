#include "svd_paths.hpp"

#ifdef NULLSCOPE_HAS_ONEMKL

#include <mkl_lapacke.h>
#include <mkl_service.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <nullscope/device.hpp>
#include <thread>

#include "scratchpad.hpp"

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

template <class T>
char job_of(const svd_problem<T>& problem) {
  if (problem.u_columns == 0) return 'N';
  return problem.u_columns == problem.m() && problem.m() > problem.n() ? 'A' : 'S';
}

/// Numbers of workspace that gesdd asks for.
template <class T>
lapack_int work_size_of(const svd_problem<T>& problem) {
  T best = 0, unused = 0;
  lapack_int unused_integer = 0;
  gesdd(job_of(problem), problem.m(), problem.n(), problem.u_columns, &unused, &unused, &unused, &unused, &best, -1,
        &unused_integer);
  // the size comes as a number of type T, which may have been rounded down
  return static_cast<lapack_int>(double(best) * (1 + double(std::numeric_limits<T>::epsilon()))) + 1;
}

/// What one thread works in.
template <class T>
struct workspace {
  lapack_int work_size;
  T *a, *s, *u, *v, *work;
  lapack_int* integers;

  workspace(const svd_problem<T>& problem, lapack_int size, scratchpad_parts& parts) : work_size(size) {
    const std::int64_t m = problem.m(), n = problem.n(), columns = problem.u_columns;
    a = parts.take<T>(m * n);
    s = parts.take<T>(n);
    u = parts.take<T>(m * columns);
    v = parts.take<T>(columns > 0 ? n * n : 0);
    work = parts.take<T>(work_size);
    integers = parts.take<lapack_int>(8 * n);
  }
};

template <class T>
std::int64_t thread_count(const sycl::queue& queue, const svd_problem<T>& problem) {
  return std::min(problem.batch(), properties(queue.get_device()).compute_units);
}

template <class T>
void decompose(const svd_problem<T>& problem, const workspace<T>& space, std::int64_t b) {
  const std::int64_t m = problem.m(), n = problem.n(), columns = problem.u_columns;
  const auto& [work_size, a, s, u, v, work, integers] = space;
  bool is_finite = true;
  for (std::int64_t r = 0; r < m; ++r) {
    for (std::int64_t c = 0; c < n; ++c) {
      a[r * n + c] = problem.a(b, r, c);
      is_finite = is_finite && std::isfinite(a[r * n + c]);
    }
  }
  lapack_int info = 0;
  if (is_finite) {
    info = gesdd(job_of(problem), m, n, columns, a, s, v, u, work, work_size, integers);
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
  const lapack_int work_size = work_size_of(problem);
  scratchpad_parts parts;
  for (std::int64_t i = 0; i < thread_count(queue, problem); ++i) workspace<T>(problem, work_size, parts);
  return parts.bytes();
}

template <class T>
sycl::event lapack_path<T>::run(sycl::queue& queue, const svd_problem<T>& problem, std::byte* scratch,
                                const std::vector<sycl::event>& dependencies) {
  const lapack_int work_size = work_size_of(problem);
  scratchpad_parts parts(scratch);
  std::vector<workspace<T>> spaces;  // one a thread
  for (std::int64_t i = 0; i < thread_count(queue, problem); ++i) spaces.emplace_back(problem, work_size, parts);
  return queue.submit([&](sycl::handler& handler) {
    handler.depends_on(dependencies);
    handler.host_task([=] {
      std::atomic<std::int64_t> next = 0;
      const auto work = [&](const workspace<T>& space) {
        // many matrices: one a thread; one large matrix: oneMKL's own threads
        const bool is_alone = spaces.size() > 1 || problem.n() < 256;
        const int before = is_alone ? mkl_set_num_threads_local(1) : 0;
        for (std::int64_t b = next++; b < problem.batch(); b = next++) decompose(problem, space, b);
        if (is_alone) mkl_set_num_threads_local(before);
      };
      std::vector<std::jthread> others;
      for (std::size_t thread = 1; thread < spaces.size(); ++thread)
        others.emplace_back(work, std::cref(spaces[thread]));
      work(spaces[0]);
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
sycl::event lapack_path<T>::run(sycl::queue&, const svd_problem<T>&, std::byte*, const std::vector<sycl::event>&) {
  return {};
}

template struct lapack_path<float>;
template struct lapack_path<double>;

}  // namespace nullscope::detail

#endif

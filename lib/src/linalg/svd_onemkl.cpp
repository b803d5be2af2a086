#include <nullscope/core/errors.hpp>

#include "lib/src/linalg/svd_libraries.hpp"

#ifdef NULLSCOPE_HAS_ONEMKL

#include <mkl_lapacke.h>
#include <mkl_service.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <nullscope/linalg/rows.hpp>
#include <thread>
#include <vector>

#include "kernels/linalg/svd/unstage.hpp"
#include "lib/src/core/ranges.hpp"

namespace nullscope::detail {
namespace {

/// LAPACK sees the transpose, column-major, so that nothing has to be transposed: its left vectors are the rows of vt.
lapack_int gesdd(char job, std::int64_t m, std::int64_t n, std::int64_t u_columns, float* a, float* s, float* vt,
                 float* u, float* work, lapack_int size, lapack_int* integers) {
  return LAPACKE_sgesdd_work(LAPACK_COL_MAJOR, job, n, m, a, n, s, vt, n, u, std::max<std::int64_t>(1, u_columns), work,
                             size, integers);
}

lapack_int gesdd(char job, std::int64_t m, std::int64_t n, std::int64_t u_columns, double* a, double* s, double* vt,
                 double* u, double* work, lapack_int size, lapack_int* integers) {
  return LAPACKE_dgesdd_work(LAPACK_COL_MAJOR, job, n, m, a, n, s, vt, n, u, std::max<std::int64_t>(1, u_columns), work,
                             size, integers);
}

/// The shape of the matrices, and which vectors are wanted.
struct matrix_shape {
  std::int64_t m, n, u_columns;

  // Numbers from one matrix to the next. oneMKL's results may depend on the alignment, which must be that of the first.
  static std::int64_t padded(std::int64_t count) { return ceil_div(count, 16) * 16; }
  std::int64_t a_size() const { return padded(m * n); }
  std::int64_t s_size() const { return padded(n); }
  std::int64_t u_size() const { return padded(m * u_columns); }
  std::int64_t vt_size() const { return u_columns > 0 ? padded(n * n) : 0; }
  std::int64_t numbers() const { return a_size() + s_size() + u_size() + vt_size(); }
  char job() const {
    if (u_columns == 0) return 'N';
    return u_columns == m && m > n ? 'A' : 'S';
  }
};

/// Numbers of workspace that gesdd asks for.
template <class T>
lapack_int work_size_of(const matrix_shape& shape) {
  T best = 0, unused = 0;
  lapack_int unused_integer = 0;
  gesdd(shape.job(), shape.m, shape.n, shape.u_columns, &unused, &unused, &unused, &unused, &best, -1, &unused_integer);
  // the size comes as a number of type T, which may have been rounded down
  return static_cast<lapack_int>(double(best) * (1 + double(std::numeric_limits<T>::epsilon()))) + 1;
}

/// What the workspace of one thread is.
template <class T>
struct thread_memory {
  T* work;
  lapack_int work_size;
  lapack_int* integers;
};

/// Matrices and their decompositions in memory that the host and the device both reach.
template <class T>
struct staged_batch {
  matrix_shape shape;
  T *a, *s, *u, *vt;  // a is overwritten
  std::int32_t* status;

  staged_batch(operation& op, const matrix_shape& of, std::int64_t count)
      : shape(of),
        a(op.take_host<T>(count * of.a_size())),
        s(op.take_host<T>(count * of.s_size())),
        u(op.take_host<T>(count * of.u_size())),
        vt(op.take_host<T>(count * of.vt_size())),
        status(op.take_host<std::int32_t>(count)) {}

  void decompose(std::int64_t b, const thread_memory<T>& memory) const {
    T* const matrix = a + b * shape.a_size();
    T* const values = s + b * shape.s_size();
    T* const left = u + b * shape.u_size();
    T* const right = vt + b * shape.vt_size();
    if (!std::all_of(matrix, matrix + shape.m * shape.n, [](T x) { return std::isfinite(x); })) {
      constexpr T nan = std::numeric_limits<T>::quiet_NaN();
      std::fill_n(values, shape.s_size(), nan);
      std::fill_n(left, shape.u_size(), nan);
      std::fill_n(right, shape.vt_size(), nan);
      status[b] = svd_not_finite;
      return;
    }
    const lapack_int info = gesdd(shape.job(), shape.m, shape.n, shape.u_columns, matrix, values, right, left,
                                  memory.work, memory.work_size, memory.integers);
    status[b] = info == 0 ? svd_converged : svd_not_converged;
  }

  /// Decomposes matrices [0, count) with one thread for each `memories`.
  void decompose_all(std::int64_t count, const std::vector<thread_memory<T>>& memories) const {
    std::atomic<std::int64_t> next = 0;
    const auto work = [&](const thread_memory<T>& memory) {
      // many matrices: one per thread; one large matrix: oneMKL's own threads
      const bool is_alone = memories.size() > 1 || shape.n < 256;
      const int before = is_alone ? mkl_set_num_threads_local(1) : 0;
      for (std::int64_t b = next++; b < count; b = next++) decompose(b, memory);
      if (is_alone) mkl_set_num_threads_local(before);
    };
    std::vector<std::jthread> others;
    for (std::size_t thread = 1; thread < memories.size(); ++thread) {
      others.emplace_back(work, std::cref(memories[thread]));
    }
    work(memories[0]);
  }
};

/// Results of matrices [first, first + count) go from the staging memory to where they belong.
template <class T>
void launch_unstage(operation& op, const staged_batch<T>& staged, const svd_problem<T>& problem, std::int64_t first,
                    std::int64_t count) {
  const auto& [m, n, columns] = staged.shape;
  kernels::svd_unstage<T> kernel{};
  kernel.from_s = {staged.s, {count, n}, {staged.shape.s_size(), 1}};
  kernel.s = slice(problem.s, 0, first, count);
  kernel.from_status = contiguous<const std::int32_t>(staged.status, count);
  kernel.status = slice(problem.status, 0, first, count);
  if (!problem.sweeps.is_absent()) kernel.sweeps = slice(problem.sweeps, 0, first, count);
  if (columns > 0) {
    kernel.from_u = {staged.u, {count, m, columns}, {staged.shape.u_size(), columns, 1}};
    kernel.u = slice(problem.u, 0, first, count);
    kernel.from_vt = {staged.vt, {count, n, n}, {staged.shape.vt_size(), n, 1}};
    kernel.vt = transposed(slice(problem.v, 0, first, count));
  }
  op.launch(groups_of(count * kernel.rows(), 1), 0, kernel);
}

template <class T>
void lapack_svd(operation& op, const svd_problem<T>& problem) {
  const matrix_shape shape{problem.m(), problem.n(), problem.u_columns};
  const std::int64_t threads = std::min(problem.batch(), op.ctx().device().compute_units);
  const lapack_int work_size = work_size_of<T>(shape);
  std::vector<thread_memory<T>> memories;
  for (std::int64_t i = 0; i < threads; ++i) {
    memories.push_back({op.take_host<T>(work_size), work_size, op.take_host<lapack_int>(8 * shape.n)});
  }
  // a large batch comes in parts, so that it is not in memory twice
  constexpr std::int64_t staged_bytes = 64 << 20;
  const std::int64_t fitting = staged_bytes / (shape.numbers() * static_cast<std::int64_t>(sizeof(T)));
  const std::int64_t at_once = std::min(problem.batch(), std::max<std::int64_t>(fitting / threads, 1) * threads);
  const staged_batch<T> staged(op, shape, at_once);
  for (std::int64_t first = 0; first < problem.batch(); first += at_once) {
    const std::int64_t count = std::min(at_once, problem.batch() - first);
    const view<T, 3> staged_a{staged.a, {count, shape.m, shape.n}, {shape.a_size(), shape.n, 1}};
    copy(op.ctx(), slice(problem.a, 0, first, count), staged_a);
    op.run([=](sycl::queue& queue, const events& dependencies) {
      return queue.submit([&](sycl::handler& handler) {
        handler.depends_on(dependencies);
        handler.host_task([=] { staged.decompose_all(count, memories); });
      });
    });
    launch_unstage(op, staged, problem, first, count);
  }
}

}  // namespace

bool has_onemkl_svd() { return true; }

void svd_onemkl(operation& op, const svd_problem<float>& problem) { lapack_svd(op, problem); }
void svd_onemkl(operation& op, const svd_problem<double>& problem) { lapack_svd(op, problem); }

}  // namespace nullscope::detail

#else

namespace nullscope::detail {

bool has_onemkl_svd() { return false; }

void svd_onemkl(operation&, const svd_problem<float>&) { throw unsupported_device("svd: built without LAPACK"); }
void svd_onemkl(operation&, const svd_problem<double>&) { throw unsupported_device("svd: built without LAPACK"); }

}  // namespace nullscope::detail

#endif

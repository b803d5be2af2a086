#include <type_traits>

#include "lib/src/linalg/svd_libraries.hpp"
#include "lib/src/linalg/svd_staged.hpp"
#include "lib/src/vendor/library_handles.hpp"
#include "lib/src/vendor/native_command.hpp"

namespace nullscope::detail {

namespace rocsolver {
namespace {

template <class T>
void decompose(const functions& library, void* handle, const staged_svd<T>& staged, const view<T, 2>& superdiagonal) {
  const auto& [m, n, columns, a, u, vt, s, not_finite, info] = staged;
  const auto size = [](std::int64_t count) { return static_cast<std::int32_t>(count); };
  const vectors of_u = !staged.has_vectors() ? none : staged.is_full() ? all : singular;
  const vectors of_vt = staged.has_vectors() ? singular : none;
  svd_function<T>* svd;
  if constexpr (std::is_same_v<T, double>) {
    svd = library.svd_f64;
  } else {
    svd = library.svd_f32;
  }
  const int status = svd(handle, of_u, of_vt, size(m), size(n), a.data, size(m), a.stride[0], s.data, s.stride[0],
                         u.data, size(m), u.stride[0], vt.data, size(n), vt.stride[0], superdiagonal.data,
                         superdiagonal.stride[0], out_of_place, info.data, size(a.extent[0]));
  expect_success(status, "rocsolver_gesvd_strided_batched");
}

template <class T>
void decompose_batch(operation& op, const functions& library, const svd_problem<T>& problem) {
  library_handle& handle = handles_of<functions>().of(op.ctx().queue());
  const staged_svd<T> staged(op, problem);
  const view<T, 2> superdiagonal = op.take_array<T>(problem.batch(), problem.n());
  decompose_staged(op, problem, staged, [=, &library, &handle](sycl::queue& queue, const events& dependencies) {
    return enqueue_native(queue, dependencies, [=, &library, &handle](void* stream) {
      const std::lock_guard lock(handle.mutex);
      if (handle.value == nullptr) {
        expect_success(library.create(&handle.value), "rocblas_create_handle");
        expect_success(library.set_atomics(handle.value, rocblas::without_atomics), "rocblas_set_atomics_mode");
      }
      expect_success(library.set_stream(handle.value, stream), "rocblas_set_stream");
      decompose(library, handle.value, staged, superdiagonal);
    });
  });
}

}  // namespace
}  // namespace rocsolver

void svd_rocsolver(operation& op, const rocsolver::functions& library, const svd_problem<float>& problem) {
  rocsolver::decompose_batch(op, library, problem);
}
void svd_rocsolver(operation& op, const rocsolver::functions& library, const svd_problem<double>& problem) {
  rocsolver::decompose_batch(op, library, problem);
}

}  // namespace nullscope::detail

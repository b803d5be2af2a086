#include <type_traits>

#include "lib/src/vendor/blas_view.hpp"
#include "lib/src/vendor/gemm_libraries.hpp"
#include "lib/src/vendor/library_handles.hpp"
#include "lib/src/vendor/loaded_library.hpp"
#include "lib/src/vendor/native_command.hpp"

namespace nullscope::detail {

namespace cublas {
namespace {

const functions* functions_of(const loaded_library& library) {
  functions found{};
  const bool has_all = library.find("cublasCreate_v2", found.create) &&
                       library.find("cublasSetStream_v2", found.set_stream) &&
                       library.find("cublasSetWorkspace_v2", found.set_workspace) &&
                       library.find("cublasGemmStridedBatchedEx_64", found.gemm);
  return has_all ? new functions(found) : nullptr;  // never destroyed
}

template <class T>
constexpr data_type data_type_of() {
  if constexpr (std::is_same_v<T, double>) return f64;
  return std::is_same_v<T, bfloat16> ? bf16 : f32;
}

operation operation_of(const blas_matrix& x) { return x.is_transposed ? transpose : as_it_is; }

/// The library sees row-major matrices as their transposes: c^T = b^T a^T.
template <class In, class T>
void multiply(const functions& library, void* handle, const gemm_call<In, T>& call, bool tf32) {
  const blas_matrix a = *blas_view(call.a), b = *blas_view(call.b), c = *blas_view(call.c);
  const compute_type compute = std::is_same_v<T, double>           ? in_f64
                               : std::is_same_v<In, float> && tf32 ? in_tf32
                                                                   : in_f32;
  const int status =
      library.gemm(handle, operation_of(b), operation_of(a), call.c.extent[2], call.c.extent[1], call.a.extent[2],
                   &call.alpha, call.b.data, data_type_of<In>(), b.leading_dimension, call.b.stride[0], call.a.data,
                   data_type_of<In>(), a.leading_dimension, call.a.stride[0], &call.beta, call.c.data,
                   data_type_of<T>(), c.leading_dimension, call.c.stride[0], call.c.extent[0], compute, automatic);
  expect_success(status, "cublasGemmStridedBatchedEx");
}

}  // namespace

const functions* open(const char* name) { return functions_of(loaded_library({name})); }

const functions* library() {
  static const functions* const found = functions_of(loaded_library({"libcublas.so.13", "libcublas.so.12"}));
  return found;
}

}  // namespace cublas

template <class In, class T>
void gemm_cublas(operation& op, const cublas::functions& library, const gemm_call<In, T>& call, bool tf32) {
  // Workspace of our own: that of a handle is shared by its streams, and results would depend on which of them runs.
  constexpr std::int64_t workspace_bytes = 32 << 20;  // what cuBLAS takes on Hopper
  auto* const workspace = op.take<std::byte>(workspace_bytes);
  op.run([=, &library](sycl::queue& queue, const events& dependencies) {
    library_handle& handle = handles_of<cublas::functions>().of(queue);
    return enqueue_native(queue, dependencies, [=, &library, &handle](void* stream) {
      const std::lock_guard lock(handle.mutex);
      if (handle.value == nullptr) expect_success(library.create(&handle.value), "cublasCreate");
      expect_success(library.set_stream(handle.value, stream), "cublasSetStream");
      expect_success(library.set_workspace(handle.value, workspace, workspace_bytes), "cublasSetWorkspace");
      cublas::multiply(library, handle.value, call, tf32);
    });
  });
}

template void gemm_cublas(operation&, const cublas::functions&, const gemm_call<float, float>&, bool);
template void gemm_cublas(operation&, const cublas::functions&, const gemm_call<double, double>&, bool);
template void gemm_cublas(operation&, const cublas::functions&, const gemm_call<bfloat16, float>&, bool);

}  // namespace nullscope::detail

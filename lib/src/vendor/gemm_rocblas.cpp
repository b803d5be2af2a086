#include <type_traits>

#include "lib/src/vendor/blas_view.hpp"
#include "lib/src/vendor/gemm_libraries.hpp"
#include "lib/src/vendor/library_handles.hpp"
#include "lib/src/vendor/loaded_library.hpp"
#include "lib/src/vendor/native_command.hpp"

namespace nullscope::detail {

namespace rocblas {
namespace {

const functions* functions_of(const loaded_library& library) {
  functions found{};
  const bool has_all = library.find("rocblas_create_handle", found.create) &&
                       library.find("rocblas_set_stream", found.set_stream) &&
                       library.find("rocblas_set_atomics_mode", found.set_atomics) &&
                       library.find("rocblas_gemm_strided_batched_ex", found.gemm);
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
void multiply(const functions& library, void* handle, const gemm_call<In, T>& call) {
  const blas_matrix a = *blas_view(call.a), b = *blas_view(call.b), c = *blas_view(call.c);
  const auto size = [](std::int64_t n) { return static_cast<std::int32_t>(n); };
  constexpr data_type in = data_type_of<In>(), out = data_type_of<T>();
  const int status =
      library.gemm(handle, operation_of(b), operation_of(a), size(call.c.extent[2]), size(call.c.extent[1]),
                   size(call.a.extent[2]), &call.alpha, call.b.data, in, size(b.leading_dimension), call.b.stride[0],
                   call.a.data, in, size(a.leading_dimension), call.a.stride[0], &call.beta, call.c.data, out,
                   size(c.leading_dimension), call.c.stride[0], call.c.data, out, size(c.leading_dimension),
                   call.c.stride[0], size(call.c.extent[0]), out, standard, 0, 0);
  expect_success(status, "rocblas_gemm_strided_batched_ex");
}

}  // namespace

const functions* open(const char* name) { return functions_of(loaded_library({name})); }

const functions* library() {
  static const functions* const found =
      functions_of(loaded_library({"librocblas.so.5", "librocblas.so.4", "librocblas.so"}));
  return found;
}

}  // namespace rocblas

template <class In, class T>
void gemm_rocblas(operation& op, const rocblas::functions& library, const gemm_call<In, T>& call) {
  op.run([=, &library](sycl::queue& queue, const events& dependencies) {
    library_handle& handle = handles_of<rocblas::functions>().of(queue);
    return enqueue_native(queue, dependencies, [=, &library, &handle](void* stream) {
      const std::lock_guard lock(handle.mutex);
      if (handle.value == nullptr) {
        expect_success(library.create(&handle.value), "rocblas_create_handle");
        // With atomics, sums would depend on the order in which work-groups end.
        expect_success(library.set_atomics(handle.value, rocblas::without_atomics), "rocblas_set_atomics_mode");
      }
      expect_success(library.set_stream(handle.value, stream), "rocblas_set_stream");
      rocblas::multiply(library, handle.value, call);
    });
  });
}

template void gemm_rocblas(operation&, const rocblas::functions&, const gemm_call<float, float>&);
template void gemm_rocblas(operation&, const rocblas::functions&, const gemm_call<double, double>&);
template void gemm_rocblas(operation&, const rocblas::functions&, const gemm_call<bfloat16, float>&);

}  // namespace nullscope::detail

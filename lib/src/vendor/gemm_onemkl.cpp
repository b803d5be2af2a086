#include <nullscope/core/device.hpp>
#include <string>
#include <type_traits>

#include "lib/src/vendor/blas_view.hpp"
#include "lib/src/vendor/gemm_libraries.hpp"

#ifdef NULLSCOPE_HAS_ONEMKL
#include <oneapi/mkl/blas.hpp>
#endif

namespace nullscope::detail {

#ifdef NULLSCOPE_HAS_ONEMKL
namespace {

namespace blas = oneapi::mkl::blas::row_major;
using oneapi::mkl::transpose;

transpose order_of(const blas_matrix& x) { return x.is_transposed ? transpose::T : transpose::N; }

template <class T>
auto blas_pointer(const T* data) {
  if constexpr (std::is_same_v<T, bfloat16>) {
    static_assert(sizeof(bfloat16) == sizeof(oneapi::mkl::bfloat16));
    return reinterpret_cast<const oneapi::mkl::bfloat16*>(data);
  } else {
    return data;
  }
}

}  // namespace

bool onemkl_serves(const device_properties& device) {
  return device.kind == device_kind::cpu || device.vendor.find("Intel") != std::string::npos;
}

template <class In, class T>
void gemm_onemkl(operation& op, const gemm_call<In, T>& call) {
  const blas_matrix a = *blas_view(call.a), b = *blas_view(call.b), c = *blas_view(call.c);
  op.run([=](sycl::queue& queue, const events& dependencies) {
    const auto* a_data = blas_pointer(call.a.data);
    const auto* b_data = blas_pointer(call.b.data);
    const std::int64_t batch = call.c.extent[0], m = call.c.extent[1], n = call.c.extent[2], k = call.a.extent[2];
    if (batch == 1) {
      return blas::gemm(queue, order_of(a), order_of(b), m, n, k, call.alpha, a_data, a.leading_dimension, b_data,
                        b.leading_dimension, call.beta, call.c.data, c.leading_dimension, dependencies);
    }
    return blas::gemm_batch(queue, order_of(a), order_of(b), m, n, k, call.alpha, a_data, a.leading_dimension,
                            call.a.stride[0], b_data, b.leading_dimension, call.b.stride[0], call.beta, call.c.data,
                            c.leading_dimension, call.c.stride[0], batch, dependencies);
  });
}

#else

bool onemkl_serves(const device_properties&) { return false; }

template <class In, class T>
void gemm_onemkl(operation&, const gemm_call<In, T>&) {}

#endif

template void gemm_onemkl(operation&, const gemm_call<float, float>&);
template void gemm_onemkl(operation&, const gemm_call<double, double>&);
template void gemm_onemkl(operation&, const gemm_call<bfloat16, float>&);

}  // namespace nullscope::detail

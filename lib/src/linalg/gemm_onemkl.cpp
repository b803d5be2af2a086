#include <algorithm>
#include <nullscope/core/device.hpp>
#include <optional>
#include <string>
#include <type_traits>

#include "lib/src/linalg/gemm_paths.hpp"

#ifdef NULLSCOPE_HAS_ONEMKL
#include <oneapi/mkl/blas.hpp>
#endif

namespace nullscope::detail {

#ifdef NULLSCOPE_HAS_ONEMKL
namespace {

namespace blas = oneapi::mkl::blas::row_major;
using oneapi::mkl::transpose;

/// A matrix as BLAS sees it.
struct blas_matrix {
  transpose order;
  std::int64_t leading_dimension;
};

/// Nothing if no direction has unit stride, or rows (columns) overlap. The stride of an extent of 1 does not matter.
template <class T>
std::optional<blas_matrix> blas_view(const view<T, 3>& x) {
  const std::int64_t rows = x.extent[1], columns = x.extent[2];
  const auto fits = [](std::int64_t slow, std::int64_t slow_stride, std::int64_t fast, std::int64_t fast_stride) {
    return (fast <= 1 || fast_stride == 1) && (slow <= 1 || slow_stride >= std::max<std::int64_t>(fast, 1));
  };
  const auto leading = [](std::int64_t slow, std::int64_t slow_stride, std::int64_t fast) {
    return slow <= 1 ? std::max<std::int64_t>(fast, 1) : slow_stride;
  };
  if (fits(rows, x.stride[1], columns, x.stride[2]))
    return blas_matrix{transpose::N, leading(rows, x.stride[1], columns)};
  if (fits(columns, x.stride[2], rows, x.stride[1]))
    return blas_matrix{transpose::T, leading(columns, x.stride[2], rows)};
  return std::nullopt;
}

/// Whether each matrix of a batch ends before the next one begins, which oneMKL asks of results: they may neither
/// interleave, as heads side by side in one row do, nor share the gap after their last rows.
template <class T>
bool follow_each_other(const view<T, 3>& x, const blas_matrix& matrix) {
  const std::int64_t slow_extent = x.extent[matrix.order == transpose::N ? 1 : 2];
  return x.extent[0] <= 1 || x.stride[0] >= matrix.leading_dimension * slow_extent;
}

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
bool onemkl_can_express(const gemm_call<In, T>& call) {
  const std::optional<blas_matrix> c = blas_view(call.c);
  return blas_view(call.a) && blas_view(call.b) && c && follow_each_other(call.c, *c);
}

template <class In, class T>
void gemm_onemkl(operation& op, const gemm_call<In, T>& call) {
  const blas_matrix c = *blas_view(call.c);
  if (c.order == transpose::T) return gemm_onemkl(op, transposed(call));
  const blas_matrix a = *blas_view(call.a), b = *blas_view(call.b);
  op.run([=](sycl::queue& queue, const events& dependencies) {
    const auto* a_data = blas_pointer(call.a.data);
    const auto* b_data = blas_pointer(call.b.data);
    const std::int64_t batch = call.c.extent[0], m = call.c.extent[1], n = call.c.extent[2], k = call.a.extent[2];
    if (batch == 1) {
      return blas::gemm(queue, a.order, b.order, m, n, k, call.alpha, a_data, a.leading_dimension, b_data,
                        b.leading_dimension, call.beta, call.c.data, c.leading_dimension, dependencies);
    }
    return blas::gemm_batch(queue, a.order, b.order, m, n, k, call.alpha, a_data, a.leading_dimension, call.a.stride[0],
                            b_data, b.leading_dimension, call.b.stride[0], call.beta, call.c.data, c.leading_dimension,
                            call.c.stride[0], batch, dependencies);
  });
}

#else

bool onemkl_serves(const device_properties&) { return false; }

template <class In, class T>
bool onemkl_can_express(const gemm_call<In, T>&) {
  return false;
}

template <class In, class T>
void gemm_onemkl(operation&, const gemm_call<In, T>&) {}

#endif

template bool onemkl_can_express(const gemm_call<float, float>&);
template bool onemkl_can_express(const gemm_call<double, double>&);
template bool onemkl_can_express(const gemm_call<bfloat16, float>&);
template void gemm_onemkl(operation&, const gemm_call<float, float>&);
template void gemm_onemkl(operation&, const gemm_call<double, double>&);
template void gemm_onemkl(operation&, const gemm_call<bfloat16, float>&);

}  // namespace nullscope::detail

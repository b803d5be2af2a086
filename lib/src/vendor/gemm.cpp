#include "lib/src/vendor/gemm.hpp"

#include <algorithm>
#include <limits>
#include <nullscope/core/device.hpp>
#include <string>

#include "lib/src/vendor/blas_view.hpp"
#include "lib/src/vendor/cublas.hpp"
#include "lib/src/vendor/gemm_libraries.hpp"
#include "lib/src/vendor/native_command.hpp"
#include "lib/src/vendor/rocblas.hpp"

namespace nullscope::detail {
namespace {

/// rocBLAS counts in 32 bits.
template <class In, class T>
bool fits_int(const gemm_call<In, T>& call) {
  const auto is_small = [](const auto& x) {
    return std::ranges::max({x.extent[0], x.extent[1], x.extent[2], blas_view(x)->leading_dimension}) <=
           std::numeric_limits<std::int32_t>::max();
  };
  return is_small(call.a) && is_small(call.b) && is_small(call.c);
}

}  // namespace

gemm_library gemm_library_of(const context& ctx) {
  switch (native_queue_of(ctx.queue())) {
    case native_queue::cuda: return cublas::library() != nullptr ? gemm_library::cublas : gemm_library::none;
    case native_queue::hip: return rocblas::library() != nullptr ? gemm_library::rocblas : gemm_library::none;
    case native_queue::none: break;
  }
  return onemkl_serves(ctx.device()) ? gemm_library::onemkl : gemm_library::none;
}

std::string_view to_string(gemm_library library) {
  switch (library) {
    case gemm_library::onemkl: return "oneMKL";
    case gemm_library::cublas: return "cuBLAS";
    case gemm_library::rocblas: return "rocBLAS";
    case gemm_library::none: break;
  }
  return "a vendor's library";
}

template <class In, class T>
bool can_express(gemm_library library, const gemm_call<In, T>& call) {
  const std::optional<blas_matrix> c = blas_view(call.c);
  if (!blas_view(call.a) || !blas_view(call.b) || !c || !follow_each_other(call.c, *c)) return false;
  return library != gemm_library::rocblas || fits_int(call);
}

template <class In, class T>
void gemm_vendor(operation& op, gemm_library library, const gemm_call<In, T>& call, bool tf32) {
  if (blas_view(call.c)->is_transposed) return gemm_vendor(op, library, transposed(call), tf32);
  switch (library) {
    case gemm_library::onemkl: return gemm_onemkl(op, call);
    case gemm_library::cublas: return gemm_cublas(op, *cublas::library(), call, tf32);
    case gemm_library::rocblas: return gemm_rocblas(op, *rocblas::library(), call);
    case gemm_library::none: break;
  }
}

template bool can_express(gemm_library, const gemm_call<float, float>&);
template bool can_express(gemm_library, const gemm_call<double, double>&);
template bool can_express(gemm_library, const gemm_call<bfloat16, float>&);
template void gemm_vendor(operation&, gemm_library, const gemm_call<float, float>&, bool);
template void gemm_vendor(operation&, gemm_library, const gemm_call<double, double>&, bool);
template void gemm_vendor(operation&, gemm_library, const gemm_call<bfloat16, float>&, bool);

}  // namespace nullscope::detail

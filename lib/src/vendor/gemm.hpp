/// The door to the vendors' libraries for products: oneMKL on CPUs and GPUs of Intel, cuBLAS on GPUs of NVIDIA, rocBLAS
/// on GPUs of AMD. The last two are opened when they are first needed: a build knows nothing of them.
#pragma once

#include <nullscope/core/context.hpp>
#include <nullscope/core/operation.hpp>
#include <string_view>

#include "lib/src/vendor/gemm_call.hpp"

namespace nullscope::detail {

enum class gemm_library { none, onemkl, cublas, rocblas };

/// The library for the context's device; none if this build, or this machine, has none.
gemm_library gemm_library_of(const context& ctx);

/// "oneMKL", "cuBLAS", "rocBLAS", or, for none, "a vendor's library".
std::string_view to_string(gemm_library library);

/// Whether the library can express the strides: each matrix has unit stride in one direction and does not overlap
/// itself, and the matrices of c follow each other.
template <class In, class T>
bool can_express(gemm_library library, const gemm_call<In, T>& call);

/// Takes a library that is not none and a call that it can express. `tf32`: float factors may be rounded to 10 bits
/// of mantissa, where the library can make use of it.
template <class In, class T>
void gemm_vendor(operation& op, gemm_library library, const gemm_call<In, T>& call, bool tf32);

}  // namespace nullscope::detail

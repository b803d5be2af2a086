/// The libraries behind gemm's door. All take a call that can be expressed and whose c is row-major.
#pragma once

#include <nullscope/core/device.hpp>
#include <nullscope/core/operation.hpp>

#include "lib/src/vendor/cublas.hpp"
#include "lib/src/vendor/gemm_call.hpp"
#include "lib/src/vendor/rocblas.hpp"

namespace nullscope::detail {

/// oneMKL was built in and supports the device.
bool onemkl_serves(const device_properties& device);

template <class In, class T>
void gemm_onemkl(operation& op, const gemm_call<In, T>& call);

template <class In, class T>
void gemm_cublas(operation& op, const cublas::functions& library, const gemm_call<In, T>& call, bool tf32);

template <class In, class T>
void gemm_rocblas(operation& op, const rocblas::functions& library, const gemm_call<In, T>& call);

}  // namespace nullscope::detail

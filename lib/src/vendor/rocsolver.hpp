/// The part of rocSOLVER that is used, with types of our own as in cublas.hpp. Its handles are rocBLAS's.
#pragma once

#include <cstdint>

#include "lib/src/vendor/rocblas.hpp"

namespace nullscope::detail::rocsolver {

enum vectors : int { all = 191, singular = 192, none = 194 };
enum work_mode : int { out_of_place = 201 };

/// Column-major. The superdiagonal holds n - 1 numbers per matrix.
template <class T>
using svd_function = int(void* handle, vectors of_u, vectors of_vt, std::int32_t m, std::int32_t n, T* a,
                         std::int32_t a_leading, std::int64_t a_stride, T* s, std::int64_t s_stride, T* u,
                         std::int32_t u_leading, std::int64_t u_stride, T* vt, std::int32_t vt_leading,
                         std::int64_t vt_stride, T* superdiagonal, std::int64_t superdiagonal_stride, work_mode mode,
                         std::int32_t* info, std::int32_t batch);

/// Statuses are int, handles and streams void*.
struct functions {
  int (*create)(void** handle);
  int (*set_stream)(void* handle, void* stream);
  int (*set_atomics)(void* handle, rocblas::atomics mode);
  svd_function<float>* svd_f32;
  svd_function<double>* svd_f64;
};

/// The functions of the library with this file name, or null.
const functions* open(const char* name);

/// Those of the rocSOLVER that the dynamic linker finds, or null.
const functions* library();

}  // namespace nullscope::detail::rocsolver

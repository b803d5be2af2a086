/// The part of rocBLAS that is used, with types of our own as in cublas.hpp. rocBLAS passes products on to hipBLASLt
/// where that is faster.
#pragma once

#include <cstdint>

namespace nullscope::detail::rocblas {

enum operation : int { as_it_is = 111, transpose = 112 };
enum data_type : int { f32 = 151, f64 = 152, bf16 = 168 };
enum algorithm : int { standard = 0 };
enum atomics : int { without_atomics = 0 };

/// Column-major: d = alpha a b + beta c. Statuses are int, handles and streams void*.
struct functions {
  int (*create)(void** handle);
  int (*set_stream)(void* handle, void* stream);
  int (*set_atomics)(void* handle, atomics mode);
  int (*gemm)(void* handle, operation a_operation, operation b_operation, std::int32_t m, std::int32_t n,
              std::int32_t k, const void* alpha, const void* a, data_type a_type, std::int32_t a_leading,
              std::int64_t a_stride, const void* b, data_type b_type, std::int32_t b_leading, std::int64_t b_stride,
              const void* beta, const void* c, data_type c_type, std::int32_t c_leading, std::int64_t c_stride, void* d,
              data_type d_type, std::int32_t d_leading, std::int64_t d_stride, std::int32_t batch, data_type compute,
              algorithm chosen, std::int32_t solution, std::uint32_t flags);
};

/// The functions of the library with this file name, or null.
const functions* open(const char* name);

/// Those of the rocBLAS that the dynamic linker finds, or null.
const functions* library();

}  // namespace nullscope::detail::rocblas

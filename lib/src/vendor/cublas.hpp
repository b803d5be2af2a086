/// The part of cuBLAS that is used. Its types are declared here, so that a build needs no CUDA; tests/vendor compares
/// them with CUDA's headers where these are installed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nullscope::detail::cublas {

enum operation : int { as_it_is = 0, transpose = 1 };
enum data_type : int { f32 = 0, f64 = 1, bf16 = 14 };
enum compute_type : int { in_f32 = 68, in_f64 = 70, in_tf32 = 77 };
enum algorithm : int { automatic = -1 };

/// Column-major. Statuses are int, handles and streams void*.
struct functions {
  int (*create)(void** handle);
  int (*set_stream)(void* handle, void* stream);
  int (*set_workspace)(void* handle, void* memory, std::size_t bytes);
  int (*gemm)(void* handle, operation a_operation, operation b_operation, std::int64_t m, std::int64_t n,
              std::int64_t k, const void* alpha, const void* a, data_type a_type, std::int64_t a_leading,
              long long a_stride, const void* b, data_type b_type, std::int64_t b_leading, long long b_stride,
              const void* beta, void* c, data_type c_type, std::int64_t c_leading, long long c_stride,
              std::int64_t batch, compute_type compute, algorithm chosen);
};

/// The functions of the library with this file name, or null: version 12 or newer is needed.
const functions* open(const char* name);

/// Those of the cuBLAS that the dynamic linker finds, or null.
const functions* library();

}  // namespace nullscope::detail::cublas

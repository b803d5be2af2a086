/// The part of cuSOLVER that is used, with types of our own as in cublas.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/src/vendor/cublas.hpp"

namespace nullscope::detail::cusolver {

using cublas::data_type;

/// Column-major, m >= n. Statuses are int, handles, parameters and streams void*.
struct functions {
  int (*create)(void** handle);
  int (*set_stream)(void* handle, void* stream);
  int (*create_parameters)(void** parameters);
  int (*destroy_parameters)(void* parameters);
  int (*svd_sizes)(void* handle, void* parameters, signed char u_job, signed char vt_job, std::int64_t m,
                   std::int64_t n, data_type a_type, const void* a, std::int64_t a_leading, data_type s_type,
                   const void* s, data_type u_type, const void* u, std::int64_t u_leading, data_type vt_type,
                   const void* vt, std::int64_t vt_leading, data_type compute, std::size_t* device_bytes,
                   std::size_t* host_bytes);
  int (*svd)(void* handle, void* parameters, signed char u_job, signed char vt_job, std::int64_t m, std::int64_t n,
             data_type a_type, void* a, std::int64_t a_leading, data_type s_type, void* s, data_type u_type, void* u,
             std::int64_t u_leading, data_type vt_type, void* vt, std::int64_t vt_leading, data_type compute,
             void* device_memory, std::size_t device_bytes, void* host_memory, std::size_t host_bytes, int* info);
};

/// The functions of the library with this file name, or null: version 11 or newer is needed.
const functions* open(const char* name);

/// Those of the cuSOLVER that the dynamic linker finds, or null.
const functions* library();

}  // namespace nullscope::detail::cusolver

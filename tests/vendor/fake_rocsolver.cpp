/// A stand-in for rocSOLVER that records what it is called with, and decomposes on the host.
#include "tests/vendor/host_svd.hpp"

namespace {

using nullscope::test::recorded_svd;

recorded_svd recorded{};
int handles = 0;
bool has_atomics = true;

char job(int vectors) { return vectors == 191 ? 'A' : vectors == 192 ? 'S' : vectors == 194 ? 'N' : '?'; }

template <class T>
int decompose_batch(void* handle, int of_u, int of_vt, int m, int n, T* a, int a_leading, std::int64_t a_stride, T* s,
                    std::int64_t s_stride, T* u, int u_leading, std::int64_t u_stride, T* vt, int vt_leading,
                    std::int64_t vt_stride, T* superdiagonal, std::int64_t superdiagonal_stride, int mode, int* info,
                    int batch) {
  if (handle != &handles || has_atomics || m < n || a_leading != m || u_leading != m || vt_leading != n) return 4;
  if (mode != 201 || superdiagonal_stride < n - 1) return 11;  // rocblas_status_invalid_value
  for (int b = 0; b < batch; ++b) {
    recorded.calls += 1;
    recorded.m = m;
    recorded.n = n;
    recorded.u_job = job(of_u);
    recorded.vt_job = job(of_vt);
    recorded.has_memory = superdiagonal != nullptr;
    T* const matrix = a + b * a_stride;
    const bool is_refused = static_cast<double>(*matrix) == recorded_svd::refused;
    info[b] = nullscope::test::decompose_column_major(recorded, matrix, s + b * s_stride, u + b * u_stride,
                                                      vt + b * vt_stride);
    if (is_refused) info[b] = 3;
  }
  return 0;
}

}  // namespace

extern "C" {

const recorded_svd* last_svd() { return &recorded; }

int rocblas_create_handle(void** handle) {
  *handle = &handles;
  return ++handles == 1 ? 0 : 1;  // one is enough
}

int rocblas_set_stream(void* handle, void*) { return handle == &handles ? 0 : 1; }

int rocblas_set_atomics_mode(void* handle, int mode) {
  has_atomics = mode != 0;
  return handle == &handles ? 0 : 1;
}

int rocsolver_sgesvd_strided_batched(void* handle, int of_u, int of_vt, int m, int n, float* a, int a_leading,
                                     std::int64_t a_stride, float* s, std::int64_t s_stride, float* u, int u_leading,
                                     std::int64_t u_stride, float* vt, int vt_leading, std::int64_t vt_stride,
                                     float* superdiagonal, std::int64_t superdiagonal_stride, int mode, int* info,
                                     int batch) {
  return decompose_batch(handle, of_u, of_vt, m, n, a, a_leading, a_stride, s, s_stride, u, u_leading, u_stride, vt,
                         vt_leading, vt_stride, superdiagonal, superdiagonal_stride, mode, info, batch);
}

int rocsolver_dgesvd_strided_batched(void* handle, int of_u, int of_vt, int m, int n, double* a, int a_leading,
                                     std::int64_t a_stride, double* s, std::int64_t s_stride, double* u, int u_leading,
                                     std::int64_t u_stride, double* vt, int vt_leading, std::int64_t vt_stride,
                                     double* superdiagonal, std::int64_t superdiagonal_stride, int mode, int* info,
                                     int batch) {
  return decompose_batch(handle, of_u, of_vt, m, n, a, a_leading, a_stride, s, s_stride, u, u_leading, u_stride, vt,
                         vt_leading, vt_stride, superdiagonal, superdiagonal_stride, mode, info, batch);
}

}  // extern "C"

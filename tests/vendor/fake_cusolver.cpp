/// A stand-in for cuSOLVER that records what it is called with, and decomposes on the host.
#include "tests/vendor/host_svd.hpp"

namespace {

using nullscope::test::recorded_svd;

recorded_svd recorded{};
int handles = 0, parameters = 0;

}  // namespace

extern "C" {

const recorded_svd* last_svd() { return &recorded; }

int cusolverDnCreate(void** handle) {
  *handle = &handles;
  return ++handles == 1 ? 0 : 1;  // one is enough
}

int cusolverDnSetStream(void* handle, void*) { return handle == &handles ? 0 : 1; }

int cusolverDnCreateParams(void** made) {
  *made = &parameters;
  return ++parameters == 1 ? 0 : 1;  // those before have been destroyed
}

int cusolverDnDestroyParams(void* made) { return made == &parameters && --parameters == 0 ? 0 : 1; }

int cusolverDnXgesvd_bufferSize(void* handle, void* with, signed char, signed char, std::int64_t m, std::int64_t n, int,
                                const void*, std::int64_t, int, const void*, int, const void*, std::int64_t, int,
                                const void*, std::int64_t, int, std::size_t* device_bytes, std::size_t* host_bytes) {
  *device_bytes = recorded_svd::device_bytes;
  *host_bytes = recorded_svd::host_bytes;
  return handle == &handles && with == &parameters && m >= n ? 0 : 3;
}

int cusolverDnXgesvd(void* handle, void* with, signed char u_job, signed char vt_job, std::int64_t m, std::int64_t n,
                     int a_type, void* a, std::int64_t a_leading, int s_type, void* s, int u_type, void* u,
                     std::int64_t u_leading, int vt_type, void* vt, std::int64_t vt_leading, int compute,
                     void* device_memory, std::size_t device_bytes, void* host_memory, std::size_t host_bytes,
                     int* info) {
  if (handle != &handles || with != &parameters || m < n || a_leading != m || u_leading != m || vt_leading != n)
    return 3;
  if (a_type != s_type || a_type != u_type || a_type != vt_type || a_type != compute) return 3;
  recorded.calls += 1;
  recorded.m = m;
  recorded.n = n;
  recorded.u_job = static_cast<char>(u_job);
  recorded.vt_job = static_cast<char>(vt_job);
  recorded.has_memory = device_memory != nullptr && host_memory != nullptr &&
                        device_bytes == recorded_svd::device_bytes && host_bytes == recorded_svd::host_bytes;
  const auto run = [&]<class T>(T* matrix) {
    const bool is_refused = static_cast<double>(*matrix) == recorded_svd::refused;
    *info = nullscope::test::decompose_column_major(recorded, matrix, static_cast<T*>(s), static_cast<T*>(u),
                                                    static_cast<T*>(vt));
    if (is_refused) *info = 3;
    return 0;
  };
  if (a_type == 0) return run(static_cast<float*>(a));
  if (a_type == 1) return run(static_cast<double*>(a));
  return 9;  // CUSOLVER_STATUS_NOT_SUPPORTED
}

}  // extern "C"

/// A stand-in for cuBLAS that records what it is called with, and multiplies on the host.
#include <nullscope/core/bfloat16.hpp>

#include "tests/vendor/recorded_gemm.hpp"

namespace {

nullscope::test::recorded_gemm recorded{};
int handles = 0;

}  // namespace

extern "C" {

const nullscope::test::recorded_gemm* last_gemm() { return &recorded; }

int cublasCreate_v2(void** handle) {
  *handle = &handles;
  return ++handles == 1 ? 0 : 1;  // one is enough
}

int cublasSetStream_v2(void* handle, void* stream) {
  recorded.stream = stream;
  recorded.workspace = nullptr;  // as cuBLAS goes back to its own
  return handle == &handles ? 0 : 1;
}

int cublasSetWorkspace_v2(void* handle, void* memory, std::size_t bytes) {
  recorded.workspace = memory;
  recorded.workspace_bytes = bytes;
  return handle == &handles ? 0 : 1;
}

int cublasGemmStridedBatchedEx_64(void* handle, int a_operation, int b_operation, std::int64_t m, std::int64_t n,
                                  std::int64_t k, const void* alpha, const void* a, int a_type, std::int64_t a_leading,
                                  long long a_stride, const void* b, int b_type, std::int64_t b_leading,
                                  long long b_stride, const void* beta, void* c, int c_type, std::int64_t c_leading,
                                  long long c_stride, std::int64_t batch, int compute, int algorithm) {
  if (handle != &handles || algorithm != -1) return 7;  // CUBLAS_STATUS_INVALID_VALUE
  const auto& memory = recorded;
  recorded = {memory.calls + 1,
              m,
              n,
              k,
              batch,
              a_operation,
              b_operation,
              a_type,
              b_type,
              c_type,
              compute,
              a_leading,
              b_leading,
              c_leading,
              a_stride,
              b_stride,
              c_stride,
              memory.stream,
              memory.workspace,
              memory.workspace_bytes,
              -1};
  const auto multiply = [&]<class In, class Out>() {
    nullscope::test::multiply_column_major<In, Out>(recorded, a_operation == 1, b_operation == 1, alpha, a, b, beta, c);
    return 0;
  };
  if (a_type != b_type) return 15;  // CUBLAS_STATUS_NOT_SUPPORTED
  if (a_type == 0 && c_type == 0) return multiply.operator()<float, float>();
  if (a_type == 1 && c_type == 1) return multiply.operator()<double, double>();
  if (a_type == 14 && c_type == 0) return multiply.operator()<nullscope::bfloat16, float>();
  return 15;
}

}  // extern "C"

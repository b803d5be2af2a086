/// A stand-in for rocBLAS that records what it is called with, and multiplies on the host.
#include <nullscope/core/bfloat16.hpp>

#include "tests/vendor/recorded_gemm.hpp"

namespace {

nullscope::test::recorded_gemm recorded{};
int handles = 0;
int atomics = -1;

}  // namespace

extern "C" {

const nullscope::test::recorded_gemm* last_gemm() { return &recorded; }

int rocblas_create_handle(void** handle) {
  *handle = &handles;
  return ++handles == 1 ? 0 : 1;  // one is enough
}

int rocblas_set_stream(void* handle, void* stream) {
  recorded.stream = stream;
  return handle == &handles ? 0 : 1;
}

int rocblas_set_atomics_mode(void* handle, int mode) {
  atomics = mode;
  return handle == &handles ? 0 : 1;
}

int rocblas_gemm_strided_batched_ex(void* handle, int a_operation, int b_operation, std::int32_t m, std::int32_t n,
                                    std::int32_t k, const void* alpha, const void* a, int a_type,
                                    std::int32_t a_leading, std::int64_t a_stride, const void* b, int b_type,
                                    std::int32_t b_leading, std::int64_t b_stride, const void* beta, const void* c,
                                    int c_type, std::int32_t c_leading, std::int64_t c_stride, void* d, int d_type,
                                    std::int32_t d_leading, std::int64_t d_stride, std::int32_t batch, int compute,
                                    int algorithm, std::int32_t solution, std::uint32_t flags) {
  if (handle != &handles || algorithm != 0 || solution != 0 || flags != 0) return 11;  // rocblas_status_invalid_value
  if (c != d || c_type != d_type || c_leading != d_leading || c_stride != d_stride) return 11;
  recorded = {recorded.calls + 1,
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
              recorded.stream,
              nullptr,
              0,
              atomics};
  const auto multiply = [&]<class In, class Out>() {
    nullscope::test::multiply_column_major<In, Out>(recorded, a_operation == 112, b_operation == 112, alpha, a, b, beta,
                                                    d);
    return 0;
  };
  if (a_type != b_type) return 2;  // rocblas_status_not_implemented
  if (a_type == 151 && c_type == 151) return multiply.operator()<float, float>();
  if (a_type == 152 && c_type == 152) return multiply.operator()<double, double>();
  if (a_type == 168 && c_type == 151) return multiply.operator()<nullscope::bfloat16, float>();
  return 2;
}

}  // extern "C"

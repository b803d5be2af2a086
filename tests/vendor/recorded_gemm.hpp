/// What stand-ins for cuBLAS and rocBLAS were called with.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nullscope::test {

/// The last product, in the words of BLAS: column-major.
struct recorded_gemm {
  std::int64_t calls, m, n, k, batch;
  int a_operation, b_operation, a_type, b_type, c_type, compute;
  std::int64_t a_leading, b_leading, c_leading, a_stride, b_stride, c_stride;
  void* stream;
  void* workspace;
  std::size_t workspace_bytes;
  int atomics;  ///< -1: not set
};

/// c = alpha op(a) op(b) + beta c for each matrix, in double; beta 0 does not read c. Numbers are read as In and Out.
template <class In, class Out>
void multiply_column_major(const recorded_gemm& call, bool is_a_transposed, bool is_b_transposed, const void* alpha,
                           const void* a, const void* b, const void* beta, void* c) {
  const auto number = [](const In* x, bool is_transposed, std::int64_t leading, std::int64_t row, std::int64_t column) {
    return static_cast<double>(is_transposed ? x[row * leading + column] : x[column * leading + row]);
  };
  const double factor = static_cast<double>(*static_cast<const Out*>(alpha));
  const double share = static_cast<double>(*static_cast<const Out*>(beta));
  for (std::int64_t matrix = 0; matrix < call.batch; ++matrix) {
    const In* const left = static_cast<const In*>(a) + matrix * call.a_stride;
    const In* const right = static_cast<const In*>(b) + matrix * call.b_stride;
    Out* const out = static_cast<Out*>(c) + matrix * call.c_stride;
    for (std::int64_t i = 0; i < call.m * call.n; ++i) {
      const std::int64_t row = i % call.m, column = i / call.m;
      double sum = 0;
      for (std::int64_t l = 0; l < call.k; ++l) {
        sum += number(left, is_a_transposed, call.a_leading, row, l) *
               number(right, is_b_transposed, call.b_leading, l, column);
      }
      Out& to = out[column * call.c_leading + row];
      to = static_cast<Out>(factor * sum + (share == 0 ? 0 : share * static_cast<double>(to)));
    }
  }
}

}  // namespace nullscope::test

/// The products of attention_joint_matrix, on tiles of a matrix engine. For DPC++ only; include it behind
/// SYCL_EXT_ONEAPI_MATRIX.
#pragma once

#include <cstdint>
#include <sycl/sycl.hpp>
// not in what the run-time compiler sees as <sycl/sycl.hpp>
#include <sycl/ext/oneapi/bfloat16.hpp>
#include <sycl/ext/oneapi/matrix/matrix.hpp>

namespace nullscope::kernels {

namespace matrices = sycl::ext::oneapi::experimental::matrix;

/// Queries and weights come in tiles of M x K, two tiles of rows a step of K; keys and values in tiles of K x N, two
/// tiles of columns a step. All functions are inlined by force: of a call that is left, the CPU's compiler no longer
/// sees which pointers are the same for all lanes, and makes gathers and scatters of what the lanes do around it.
template <int M, int N, int K>
struct attention_tile_products {
  using element = sycl::ext::oneapi::bfloat16;
  using layout = matrices::layout;
  using a_tile = matrices::joint_matrix<sycl::sub_group, element, matrices::use::a, M, K, layout::row_major>;
  using b_tile = matrices::joint_matrix<sycl::sub_group, element, matrices::use::b, K, N, layout::ext_intel_packed>;
  using sum_tile = matrices::joint_matrix<sycl::sub_group, float, matrices::use::accumulator, M, N>;
  static constexpr int a_step = 2 * M * K, b_step = 2 * K * N;  // elements

  /// to (M queries, 2 N keys) = a b of any number of steps: 1 x 2 tiles. (AMX: of two tiles filled with zeros the
  /// compiler makes one, and copies it through the stack; so one is filled and one is loaded.)
  template <class A, class B, class Zeros, class To>
  [[gnu::always_inline]] static void multiply_by_keys(sycl::sub_group group, A a, B b, std::int64_t steps, Zeros zeros,
                                                      To to, std::int64_t stride) {
    sum_tile first, second;
    matrices::joint_matrix_fill(group, first, 0.f);
    matrices::joint_matrix_load(group, second, zeros, N, layout::row_major);
    for (std::int64_t s = 0; s < steps; ++s) {
      a_tile a0;
      b_tile b0, b1;
      matrices::joint_matrix_load(group, a0, a + s * a_step, K);
      matrices::joint_matrix_load(group, b0, b + s * b_step, 2 * N);
      matrices::joint_matrix_load(group, b1, b + (s * b_step + K * N), 2 * N);
      matrices::joint_matrix_mad(group, first, a0, b0, first);
      matrices::joint_matrix_mad(group, second, a0, b1, second);
    }
    matrices::joint_matrix_store(group, first, to, stride, layout::row_major);
    matrices::joint_matrix_store(group, second, to + N, stride, layout::row_major);
  }

  /// The same of two steps for many a: for_each_part(f) calls f(a, to) for each; meanwhile b stays in four tiles. A sum
  /// begins with zeros in a loop of its own that runs `one` times, which the compiler must not know to be 1: only so is
  /// the tile set to zero in place, and not copied, by way of the stack, from a tile of zeros that serves all sums.
  template <class B, class ForEachPart>
  [[gnu::always_inline]] static void multiply_by_keys_that_stay(sycl::sub_group group, B b, std::int64_t stride,
                                                                int one, ForEachPart for_each_part) {
    b_tile b00, b01, b10, b11;  // step, tile
    matrices::joint_matrix_load(group, b00, b, 2 * N);
    matrices::joint_matrix_load(group, b01, b + K * N, 2 * N);
    matrices::joint_matrix_load(group, b10, b + b_step, 2 * N);
    matrices::joint_matrix_load(group, b11, b + (b_step + K * N), 2 * N);
    for_each_part([&](auto a, auto to) {
      a_tile a0, a1;
      matrices::joint_matrix_load(group, a0, a, K);
      matrices::joint_matrix_load(group, a1, a + a_step, K);
      sum_tile first, second;
      matrices::joint_matrix_fill(group, first, 0.f);
      for (int i = 0; i < one; ++i) {
        matrices::joint_matrix_mad(group, first, a0, b00, first);
        matrices::joint_matrix_mad(group, first, a1, b10, first);
      }
      matrices::joint_matrix_fill(group, second, 0.f);
      for (int i = 0; i < one; ++i) {
        matrices::joint_matrix_mad(group, second, a0, b01, second);
        matrices::joint_matrix_mad(group, second, a1, b11, second);
      }
      matrices::joint_matrix_store(group, first, to, stride, layout::row_major);
      matrices::joint_matrix_store(group, second, to + N, stride, layout::row_major);
    });
  }

  /// to (2 M queries, 2 N columns) += a (2 M, steps K) b (steps K, 2 N): 2 x 2 tiles
  template <class A, class B, class To>
  [[gnu::always_inline]] static void multiply_add(sycl::sub_group group, A a, B b, std::int64_t steps, To to,
                                                  std::int64_t stride) {
    sum_tile c00, c01, c10, c11;
    const To to10 = to + M * stride;
    matrices::joint_matrix_load(group, c00, to, stride, layout::row_major);
    matrices::joint_matrix_load(group, c01, to + N, stride, layout::row_major);
    matrices::joint_matrix_load(group, c10, to10, stride, layout::row_major);
    matrices::joint_matrix_load(group, c11, to10 + N, stride, layout::row_major);
    for (std::int64_t s = 0; s < steps; ++s) {
      a_tile a0, a1;
      b_tile b0, b1;
      matrices::joint_matrix_load(group, a0, a + s * a_step, K);
      matrices::joint_matrix_load(group, b0, b + s * b_step, 2 * N);
      matrices::joint_matrix_load(group, b1, b + (s * b_step + K * N), 2 * N);
      matrices::joint_matrix_load(group, a1, a + (s * a_step + M * K), K);
      matrices::joint_matrix_mad(group, c00, a0, b0, c00);
      matrices::joint_matrix_mad(group, c01, a0, b1, c01);
      matrices::joint_matrix_mad(group, c10, a1, b0, c10);
      matrices::joint_matrix_mad(group, c11, a1, b1, c11);
    }
    matrices::joint_matrix_store(group, c00, to, stride, layout::row_major);
    matrices::joint_matrix_store(group, c01, to + N, stride, layout::row_major);
    matrices::joint_matrix_store(group, c10, to10, stride, layout::row_major);
    matrices::joint_matrix_store(group, c11, to10 + N, stride, layout::row_major);
  }
};

}  // namespace nullscope::kernels

/// The largest rate that a device's matrix engine reaches, bf16 in and f32 out: nothing but independent tiles in
/// registers. Only DPC++ has `joint_matrix`; elsewhere this header is empty.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nullscope/core/bfloat16.hpp>
#include <sycl/sycl.hpp>

#if __has_include(<sycl/ext/oneapi/matrix/matrix.hpp>)

#include <sycl/ext/oneapi/bfloat16.hpp>
#include <sycl/ext/oneapi/matrix/matrix.hpp>

#include "kernels/core/address_spaces.hpp"
#include "kernels/linalg/joint_matrix_target.hpp"

namespace nullscope::kernels {

/// Each sub-group adds a (M x K) b (K x N) to four tiles, `rounds` times: 8 * M * N * K * rounds flops. All elements of
/// a and b are 1/64, so each element of a tile is exactly rounds * K / 4096. Every work-group is one sub-group.
/// PackedB: b is stored in pairs of rows, as Intel's engines expect it; otherwise row by row.
template <int M, int N, int K, int SubGroup, bool PackedB>
struct peak_matrix {
  static constexpr const char* source = __FILE__;
  static constexpr int sub_group_size = SubGroup;

  const nullscope::bfloat16* numbers;  // (K * (M or N, whichever is larger)), all 1/64
  float* out;                          // (work-groups, 4, M, N)
  std::int64_t rounds;

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    if constexpr (target_has_tiles<PackedB>()) multiply(item);
  }

 private:
  void multiply(sycl::nd_item<1> item) const {
    namespace matrix = sycl::ext::oneapi::experimental::matrix;
    using number = sycl::ext::oneapi::bfloat16;
    const auto group = item.get_sub_group();
    // Two by two tiles from two and two: with four chains the engine's latency is hidden, and all fit eight registers.
    matrix::joint_matrix<sycl::sub_group, number, matrix::use::a, M, K, matrix::layout::row_major> a[2];
    constexpr auto b_layout = PackedB ? matrix::layout::ext_intel_packed : matrix::layout::row_major;
    constexpr int b_stride = PackedB ? 2 * N : N;
    matrix::joint_matrix<sycl::sub_group, number, matrix::use::b, K, N, b_layout> b[2];
    matrix::joint_matrix<sycl::sub_group, float, matrix::use::accumulator, M, N> c[2][2];
    for (int i = 0; i < 2; ++i) {
      // Loaded, not filled: the CPU's compiler of oneAPI 2026.2 crashes on a filled bf16 tile.
      matrix::joint_matrix_load(group, a[i], in_global(reinterpret_cast<const number*>(numbers)), K);
      matrix::joint_matrix_load(group, b[i], in_global(reinterpret_cast<const number*>(numbers)), b_stride);
      for (int j = 0; j < 2; ++j) matrix::joint_matrix_fill(group, c[i][j], 0.0f);
    }
    for (std::int64_t round = 0; round < rounds; ++round) {
      for (int i = 0; i < 2; ++i) {
        for (int j = 0; j < 2; ++j) matrix::joint_matrix_mad(group, c[i][j], a[i], b[j], c[i][j]);
      }
    }
    float* tile = out + static_cast<std::int64_t>(item.get_group(0)) * 4 * M * N;
    for (int i = 0; i < 2; ++i) {
      for (int j = 0; j < 2; ++j) {
        float* to = tile + (i * 2 + j) * M * N;
        matrix::joint_matrix_store(group, c[i][j], in_global(to), N, matrix::layout::row_major);
      }
    }
  }
};

}  // namespace nullscope::kernels

#endif

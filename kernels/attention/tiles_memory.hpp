/// What a sub-group of attention_joint_matrix has in local memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nullscope/core/bfloat16.hpp>

namespace nullscope::kernels {

template <int M, int N, int K, int SubGroup, int KeyBlock, int Panels>
struct attention_tiles_memory {
  static constexpr int rows = Panels * 2 * M;
  static constexpr int a_step = 2 * M * K, b_step = 2 * K * N;  // elements
  static constexpr int block_steps = KeyBlock / K;
  /// Floats of a row: scores of two alternating steps (even keys, odd keys), sums and sums of squares before and after
  /// the step. They are kept together since a CPU compares the low 12 bits of addresses to tell whether a load depends
  /// on a pending store: this way pending tiles of scores never alias what the lanes load.
  static constexpr int record = 2 * K + 4 * SubGroup;

  std::int64_t out_stride;
  float* zeros;       // (M, N)
  float* records;     // (rows, record)
  float* outs;        // (rows, out_stride)
  float* offset;      // (rows)
  bfloat16* weights;  // (panels, steps of a block, 2 M, K)
  bfloat16* values;   // (2, K, N): a step of values whose end is masked
  bfloat16* queries;  // (panels, steps of dk, 2 M, K)
  int turn = 0;

  attention_tiles_memory(std::byte* local, std::int64_t dv) : out_stride(padded_columns(dv) + N) {
    zeros = reinterpret_cast<float*>(local);
    records = zeros + M * N;
    outs = records + rows * record;
    offset = outs + rows * out_stride;
    weights = reinterpret_cast<bfloat16*>(offset + rows);
    values = weights + rows * KeyBlock;
    queries = values + b_step;
  }

  static std::int64_t padded_columns(std::int64_t dv) { return (dv + 2 * N - 1) / (2 * N) * (2 * N); }
  static std::int64_t steps_of(std::int64_t k) { return (k + K - 1) / K; }
  static std::int64_t bytes(std::int64_t dk, std::int64_t dv) {
    const std::int64_t floats = M * N + rows * (record + padded_columns(dv) + N + 1);
    return floats * static_cast<std::int64_t>(sizeof(float)) +
           (rows * KeyBlock + b_step + Panels * steps_of(dk) * a_step) * static_cast<std::int64_t>(sizeof(bfloat16));
  }

  float* scores_of(std::int64_t step, int r) const { return records + r * record + step % 2 * K; }
  float* sum_before(int r) const { return records + r * record + 2 * K + turn * SubGroup; }
  float* sum_after(int r) const { return records + r * record + 2 * K + (turn ^ 1) * SubGroup; }
  float* squares_before(int r) const { return sum_before(r) + 2 * SubGroup; }
  float* squares_after(int r) const { return sum_after(r) + 2 * SubGroup; }
  bfloat16* weights_of(std::int64_t step, int panel) const {
    return weights + (panel * block_steps + step % block_steps) * a_step;
  }
};

}  // namespace nullscope::kernels

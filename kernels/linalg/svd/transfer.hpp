/// From W matrices, each with its own strides, to packs that hold one element of every matrix, and back.
#pragma once

#include <nullscope/core/view.hpp>

#include "kernels/linalg/svd/lanes.hpp"
#include "kernels/linalg/svd/problem.hpp"
#include "kernels/linalg/transpose_block.hpp"

namespace nullscope::kernels {

/// W matrices of a batch, from `first` on, one per lane; beyond the end of the batch, its last matrix fills the lanes.
template <class T, int W>
struct laned_matrices {
  using P = pack<T, W>;

  view<const T, 3> a;
  std::int64_t first;
  int lanes;  ///< matrices before the end of the batch
  P scale;    ///< scale_to_one of each matrix
  P finite;   ///< 0 where there is NaN or infinity

  laned_matrices(view<const T, 3> matrices, std::int64_t begin)
      : a(matrices),
        first(begin),
        lanes(static_cast<int>(matrices.extent[0] - begin < W ? matrices.extent[0] - begin : W)),
        scale(1),
        finite(1) {
    for (int lane = 0; lane < W; ++lane) find_scale(lane);
  }

  /// to (rows, columns of a) = scaled rows [begin, begin + rows) of the matrices; zeros for those that are not finite.
  void load_rows(std::int64_t begin, std::int64_t rows, P* to, std::int64_t stride) const {
    const std::int64_t columns = a.extent[2];
    if (a.stride[2] == 1) {
      load(begin, rows, columns, 1, 2, to, stride, 1);
    } else {
      load(begin, columns, rows, 2, 1, to, 1, stride);  // transposed views are contiguous along the rows
    }
  }

 private:
  const T* matrix(int lane) const { return &a(first + (lane < lanes ? lane : lanes - 1), 0, 0); }

  void find_scale(int lane) {
    const int inner = a.stride[2] == 1 ? 2 : 1, outer = 3 - inner;
    P most(0), zero(0);
    const auto note = [&](P x) {
      most = max(most, abs(x));
      zero = fma(x, P(0), zero);  // NaN if an element is not finite
    };
    for (std::int64_t i = 0; i < a.extent[outer]; ++i) {
      const T* const line = matrix(lane) + i * a.stride[outer];
      std::int64_t j = 0;
      if (a.stride[inner] == 1) {
        for (; j + W <= a.extent[inner]; j += W) note(kernels::load<W>(line + j));
      }
      for (; j < a.extent[inner]; ++j) note(P(line[j * a.stride[inner]]));
    }
    if (sum(zero) != T(0)) {
      finite.set(lane, T(0));
    } else {
      scale.set(lane, scale_to_one(largest(most)));
    }
  }

  /// Lines of `inner` elements along dimension `inner_dimension` of a.
  void load(std::int64_t begin, std::int64_t outer, std::int64_t inner, int outer_dimension, int inner_dimension, P* to,
            std::int64_t outer_step, std::int64_t inner_step) const {
    const auto is_finite = differs(finite, P(0));
    const std::int64_t offset = begin * a.stride[1];
    const bool is_contiguous = a.stride[inner_dimension] == 1;
    for (std::int64_t i = 0; i < outer; ++i) {
      P* const line = to + i * outer_step;
      const std::int64_t start = offset + i * a.stride[outer_dimension];
      std::int64_t j = 0;
      if constexpr (W > 1) {
        for (; is_contiguous && j + W <= inner; j += W) {
          P block[W];
#pragma unroll
          for (int lane = 0; lane < W; ++lane) block[lane] = kernels::load<W>(matrix(lane) + start + j);
          transpose_block(block);
#pragma unroll
          for (int k = 0; k < W; ++k) line[(j + k) * inner_step] = select(is_finite, block[k] * scale, P(0));
        }
      }
      for (; j < inner; ++j) {
        P x;
        for (int lane = 0; lane < W; ++lane) x.set(lane, matrix(lane)[start + j * a.stride[inner_dimension]]);
        line[j * inner_step] = select(is_finite, x * scale, P(0));
      }
    }
  }
};

/// Rows [begin, begin + rows) of `to`, for the first `lanes` matrices from `first` on, from `from` (rows, columns).
/// Column c of matrix `lane` goes to column order[c * W + lane], if c < ordered.
template <class T, int W>
void store_rows(const view<T, 3>& to, std::int64_t first, int lanes, std::int64_t begin, std::int64_t rows,
                std::int64_t columns, const std::int32_t* order, std::int64_t ordered, const pack<T, W>* from,
                std::int64_t stride) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const T* const row = reinterpret_cast<const T*>(from + r * stride);
    for (int lane = 0; lane < lanes; ++lane) {
      T* const out = &to(first + lane, begin + r, 0);
      for (std::int64_t c = 0; c < ordered; ++c) out[order[c * W + lane] * to.stride[2]] = row[c * W + lane];
      for (std::int64_t c = ordered; c < columns; ++c) out[c * to.stride[2]] = row[c * W + lane];
    }
  }
}

}  // namespace nullscope::kernels

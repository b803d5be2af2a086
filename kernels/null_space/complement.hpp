/// The orthogonal complement of k orthonormal columns, up to a product: one work-group per matrix.
///
/// For Q = [Q1; Q2] (S x k) there is an orthogonal matrix, a block Householder reflector, whose first k columns are Q D
/// with D a diagonal of signs; its other columns are the complement
///   N = [X; I] - Q D X,  X = (D - Q1^T)^-1 Q2^T  (k x (S - k)).
/// The signs are chosen during the elimination so that each pivot is at least one; then it is stable without exchanging
/// rows (Ballard, Demmel et al., Reconstructing Householder vectors from TSQR).
#pragma once

#include <cstddef>
#include <cstdint>
#include <nullscope/core/view.hpp>
#include <sycl/sycl.hpp>

#include "kernels/group/group.hpp"

namespace nullscope::kernels {

/// q (B,S,k) -> minuend (B,S,S-k) = [X; I] and D X, which is what `system` (B,k,stride) holds from column `first` on.
template <class T, int W>
struct complement_of_columns {
  static constexpr const char* source = __FILE__;

  view<const T, 3> q;
  view<T, 3> minuend;
  T* system;                   // starts as [D - Q1^T, 0, Q2^T, 0]
  T* coefficients;             // (B,2,k); too many for local memory
  std::int64_t first, stride;  // k rounded up to W; first + (S - k) rounded up to W

  void operator()(sycl::nd_item<1> item, std::byte*) const {
    const group<(W > 1 ? 1 : whole_work_group)> members(item);
    const std::int64_t matrix = members.number(), id = members.rank(), size = members.size();
    const std::int64_t tokens = q.extent[1], k = q.extent[2];
    T* rows = system + matrix * k * stride;
    T* factor = coefficients + matrix * 2 * k;  // (k) multipliers of a column
    T* sign = factor + k;                       // (k) the diagonal of D
    const auto subtract = [&](std::int64_t i, std::int64_t j, std::int64_t begin, T by) {  // row i -= by * row j
      for (std::int64_t c = begin / W * W + id * W; c < stride; c += size * W) {
        store(rows + i * stride + c,
              fma(pack<T, W>(-by), load<W>(rows + j * stride + c), load<W>(rows + i * stride + c)));
      }
    };
    for (std::int64_t i = 0; i < k; ++i) {
      for (std::int64_t c = id; c < stride; c += size) {
        const std::int64_t token = c < first ? c : c - first + k;
        const bool is_padding = token >= tokens || (c >= k && c < first);
        rows[i * stride + c] = is_padding ? T(0) : c < k ? -q(matrix, token, i) : q(matrix, token, i);
      }
    }
    members.barrier();
    for (std::int64_t j = 0; j < k; ++j) {
      const T pivot = rows[j * stride + j], d = pivot < 0 ? T(-1) : T(1);
      for (std::int64_t i = j + 1 + id; i < k; i += size) factor[i] = rows[i * stride + j] / (pivot + d);
      if (id == 0) sign[j] = d;
      members.barrier();
      for (std::int64_t i = j + 1; i < k; ++i) subtract(i, j, j + 1, factor[i]);
      members.barrier();
    }
    for (std::int64_t j = k - 1; j >= 0; --j) {  // back substitution, by rows of the unknown
      const T inverse = 1 / (rows[j * stride + j] + sign[j]);
      for (std::int64_t i = id; i < j; i += size) factor[i] = rows[i * stride + j];
      for (std::int64_t c = first + id; c < stride; c += size) rows[j * stride + c] *= inverse;
      members.barrier();
      for (std::int64_t i = 0; i < j; ++i) subtract(i, j, first, factor[i]);
      members.barrier();
    }
    for (std::int64_t c = id; c < tokens - k; c += size) {
      for (std::int64_t i = 0; i < k; ++i) {
        T& x = rows[i * stride + first + c];
        minuend(matrix, i, c) = x;
        x *= sign[i];
      }
      for (std::int64_t i = k; i < tokens; ++i) minuend(matrix, i, c) = i - k == c ? T(1) : T(0);
    }
  }
};

}  // namespace nullscope::kernels

/// Batched QR factorisation, a = q r, of many small matrices, of few tall ones, and of anything between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nullscope/view.hpp>
#include <span>
#include <sycl/sycl.hpp>
#include <type_traits>
#include <vector>

namespace nullscope {

/// Bytes of device memory that `qr` needs for a batch of matrices (rows x columns) on this device; fewer if only R is
/// asked for. Of the order of batch * rows * columns * sizeof(T), or less if the batch is large.
template <class T>
std::int64_t qr_scratchpad_size(const sycl::queue& queue, std::int64_t batch, std::int64_t rows, std::int64_t columns,
                                bool with_q = true);

/// For each matrix of a (batch, m, n), with k = min(m, n):
///   q (batch, m, k)  orthonormal columns, q^T q = I, whatever the rank of a
///   r (batch, k, n)  upper triangular, its strictly lower part is set to zero; signs of its diagonal as they fall
/// q may be an empty view, view<T, 3>{}: only r is computed, in half the time.
///
/// Householder reflectors throughout: 2 m n^2 flops for r and as many for q (m >= n). A tall matrix of a small batch is
/// spread over work-groups as a tree (TSQR). Columns are scaled by powers of two on the way, so entries near 1e30 or
/// 1e-30, zero columns and columns of very different size are safe. NaN or infinity in a matrix gives NaN or
/// infinity in its r, and then its q is of no use; no other matrix is touched.
///
/// q may be a itself (same memory, same strides); otherwise outputs overlap nothing. The scratchpad is device memory of
/// at least `qr_scratchpad_size` bytes. T is float or double. Deterministic.
/// Throws invalid_argument (shapes, strides, null pointers, scratchpad) or unsupported_device (double), before any
/// launch.
template <class T>
sycl::event qr(sycl::queue& queue, std::type_identity_t<view<const T, 3>> a, view<T, 3> q, view<T, 3> r,
               std::span<std::byte> scratchpad, const std::vector<sycl::event>& dependencies = {});

}  // namespace nullscope

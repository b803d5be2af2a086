/// Which singular values count as zero.
#pragma once

#include <algorithm>
#include <cstdint>
#include <nullscope/core/context.hpp>
#include <nullscope/core/operation.hpp>
#include <nullscope/core/tensor.hpp>
#include <nullscope/core/view.hpp>
#include <sycl/sycl.hpp>
#include <vector>

namespace nullscope {

/// The numerical rank of an m x n matrix is the number of singular values s_i > max(relative * s_0, absolute).
struct rank_tolerance {
  double relative = -1;  ///< negative: max(m, n) eps, with eps the machine epsilon of the element type
  double absolute = 0;
};

/// What `range_basis` takes by default as the relative tolerance of T (tokens x width). Rounding errors of many rows
/// are independent: beyond 4096 tokens those of singular values do not grow. max(S, d) eps would be 0.125 at a million
/// tokens in float.
inline double default_range_tolerance(std::int64_t tokens, std::int64_t width, double epsilon) {
  constexpr std::int64_t longest = 4096;
  return static_cast<double>(std::max(std::min(tokens, longest), width)) * epsilon;
}

// Singular value decompositions of batches of matrices, and their numerical ranks.
//
//   a = u diag(s) vt    a (batch, m, n), s (batch, min(m, n)) descending and not negative
//
//   vectors   u                           vt
//   none      absent                      absent
//   thin      (batch, m, min(m, n))       (batch, min(m, n), n)
//   full      (batch, m, m)               (batch, n, n)
//
//   svd(ctx, a, {.s = s, .u = u, .vt = vt, .status = status});
//   svd(ctx, a, {.s = s, .status = status}, {.vectors = svd_vectors::none});
//
// u and vt have orthonormal columns and rows whatever the rank of a; their signs are arbitrary. Each matrix is scaled
// by a power of two first, so entries near the limits of the type are safe.
//
// The algorithms:
// - `bidiagonal`: Householder bidiagonalisation and implicitly shifted QR with one matrix per vector lane; tall and
//   wide matrices are reduced by QR first. Backward stable: every value is accurate to a few eps * sigma_max.
// - `jacobi`: one-sided Jacobi rotations with one work-group per matrix, for GPUs and for small batches. If the
// columns
//   of a (the rows, if m < n) are badly scaled but well conditioned once they are scaled to length one, the small
//   singular values have high relative accuracy: |ds| / s of the order of eps times that condition number, not times
//   that of a. This holds down to 1e-14 (float) or 1e-139 (double) of the largest; shorter columns count as zero.
// - `lapack`: oneMKL's gesdd on the host, one matrix per thread, only where the library has oneMKL and the context's
//   layout has vectors (CPUs); on GPUs of NVIDIA and AMD gesvd of cuSOLVER and rocSOLVER, if installed.
// - `automatic`: with vectors `bidiagonal`, or, for batches too small for its lanes, `lapack` (without oneMKL:
//   `jacobi`); `lapack` also for very large matrices. Without vectors (GPUs and other accelerators) `jacobi`, and
//   `lapack` for few large matrices.
//
// The same matrix gives the same bits wherever it stands in a batch, and from run to run; a batch of another size may
// select another algorithm.

enum class svd_vectors { none, thin, full };
enum class svd_algorithm { automatic, bidiagonal, jacobi, lapack };

struct svd_options {
  svd_vectors vectors = svd_vectors::thin;
  svd_algorithm algorithm = svd_algorithm::automatic;
  std::int64_t max_sweeps = 0;  ///< 0: more than any known matrix needs; `lapack` has its own limit
};

/// The outcome for one matrix of a batch.
enum svd_status : std::int32_t {
  svd_converged = 0,
  /// Not within max_sweeps; the values are approximate. `bidiagonal`: u and vt are orthonormal. `jacobi`:
  /// a = u diag(s) vt, vt is orthonormal and u is not (the other way round if m < n). `lapack`: whatever gesdd leaves.
  svd_not_converged = 1,
  svd_not_finite = 2  ///< a contains NaN or infinity; s, u and vt of this matrix are NaN
};

/// The ids of the matrices that failed, ascending: their status is not svd_converged, or their rank, if given, is -1.
std::vector<std::int64_t> failed_ids(const std::vector<std::int32_t>& status,
                                     const std::vector<std::int64_t>& rank = {});

template <class Number>
struct svd_results {
  view<Number, 2> s;                  ///< (batch, min(m, n))
  view<Number, 3> u = {}, vt = {};    ///< as in the table above
  view<std::int32_t, 1> status;       ///< (batch), svd_status
  view<std::int32_t, 1> sweeps = {};  ///< (batch), QR or Jacobi sweeps, 0 from `lapack`; optional
};

/// Decomposes every matrix of a, which is not overwritten and must not overlap the results.
/// Throws invalid_argument (shapes, strides, null pointers, matrices without elements, negative max_sweeps) or
/// unsupported_device (double or LAPACK where there is none).
sycl::event svd(context& ctx, view<const float, 3> a, const svd_results<float>& results,
                const svd_options& options = {}, const events& dependencies = {});
sycl::event svd(context& ctx, view<const double, 3> a, const svd_results<double>& results,
                const svd_options& options = {}, const events& dependencies = {});

struct numerical_rank_options {
  std::int64_t m, n;  ///< of the matrices that have these singular values
  rank_tolerance tolerance = {};
};

/// rank(b) = the number of values s(b, i) above max(relative * s(b, 0), absolute), with s (batch, min(m, n))
/// descending. A matrix whose s is NaN, or has overflowed, gets rank -1. Throws invalid_argument and
/// unsupported_device.
sycl::event numerical_rank(context& ctx, view<const float, 2> s, view<std::int64_t, 1> rank,
                           const numerical_rank_options& options, const events& dependencies = {});
sycl::event numerical_rank(context& ctx, view<const double, 2> s, view<std::int64_t, 1> rank,
                           const numerical_rank_options& options, const events& dependencies = {});

/// Tensors on the context's device.
template <class Number>
struct svd_tensors {
  tensor<Number> s;             ///< (batch, min(m, n))
  tensor<Number> u, vt;         ///< as in the table above; (batch, m, 0) and (batch, 0, n) without vectors
  tensor<std::int32_t> status;  ///< (batch)
  tensor<std::int32_t> sweeps;  ///< (batch)
};

/// Allocates, decomposes a (batch, m, n) or (m, n), a batch of one, and waits. Throws computation_error with the ids of
/// the matrices that failed. The element type is float or double.
template <class Number>
svd_tensors<Number> svd(context& ctx, const tensor<Number>& a, const svd_options& options = {});

/// Numerical ranks (batch) of the matrices of a (batch, m, n) or (m, n). Throws like `svd`.
template <class Number>
std::vector<std::int64_t> numerical_rank(context& ctx, const tensor<Number>& a, const rank_tolerance& tolerance = {});

}  // namespace nullscope

/// Singular value decompositions of batches of matrices, and their numerical ranks.
///
///   a = u diag(s) vt    a (batch, m, n), s (batch, min(m, n)) descending and not negative
///
///   vectors   u                                    vt
///   none      not touched (pass an empty view)     not touched
///   thin      (batch, m, min(m, n))                (batch, min(m, n), n)
///   full      (batch, m, m)                        (batch, n, n)
///
/// u and vt have orthonormal columns and rows whatever the rank of a; their signs are as they fall. Each matrix is
/// scaled by a power of two first, so entries near the limits of the type do no harm.
///
/// The algorithms:
/// - `bidiagonal`: Householder bidiagonalisation and implicitly shifted QR with one matrix a vector lane; tall and wide
///   matrices are reduced by QR first. Backward stable: every value is right to a few eps * sigma_max.
/// - `jacobi`: one-sided Jacobi rotations with a work-group a matrix, for GPUs and for small batches. If the columns of
///   a (the rows, if m < n) are badly scaled but well conditioned when brought to length one, the small singular values
///   have high relative accuracy: |ds| / s of the order of eps times that condition, not times the condition of a.
///   That is down to 1e-14 (float) or 1e-139 (double) of the largest; columns shorter than that count as zero.
/// - `lapack`: oneMKL's gesdd on the host, one matrix a thread; only where the library has oneMKL and the device is a
///   CPU.
/// - `automatic`: on CPUs `bidiagonal`, or, for batches too small for its lanes, `lapack` (without oneMKL: `jacobi`);
///   `lapack` also for very large matrices. Elsewhere `jacobi`.
///
/// The same matrix gives the same bits wherever in a batch it stands, and from run to run; a different size of the
/// batch may select another algorithm.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nullscope/tensor.hpp>
#include <nullscope/view.hpp>
#include <span>
#include <sycl/sycl.hpp>
#include <vector>

namespace nullscope {

enum class svd_vectors { none, thin, full };
enum class svd_algorithm { automatic, bidiagonal, jacobi, lapack };

struct svd_options {
  svd_vectors vectors = svd_vectors::thin;
  svd_algorithm algorithm = svd_algorithm::automatic;
  std::int64_t max_sweeps = 0;  ///< 0: enough for every matrix that was ever seen; `lapack` has its own limit
};

/// What became of one matrix of a batch.
enum svd_status : std::int32_t {
  svd_converged = 0,
  /// Within max_sweeps. The values are approximate. `bidiagonal`: u and vt are orthonormal. `jacobi`: a = u diag(s) vt,
  /// with vt orthonormal (u, if m < n) and the other not. `lapack`: what gesdd leaves, of which nothing is promised.
  svd_not_converged = 1,
  svd_not_finite = 2  ///< a held NaN or infinity; s, u and vt of this matrix are NaN
};

/// Bytes of device memory that `svd` needs for a (batch, m, n) with these options.
template <class T>
std::int64_t svd_scratchpad_size(const sycl::queue& queue, std::int64_t batch, std::int64_t m, std::int64_t n,
                                 const svd_options& options = {});

/// Decomposes every matrix of a; T is float or double. a is not overwritten and must not overlap the results. status
/// (batch) gets svd_status; sweeps (batch), if it has memory, the number of QR or Jacobi sweeps (0 from `lapack`).
/// Throws invalid_argument and unsupported_device.
template <class T>
sycl::event svd(sycl::queue& queue, view<const T, 3> a, view<T, 2> s, view<T, 3> u, view<T, 3> vt,
                view<std::int32_t, 1> status, view<std::int32_t, 1> sweeps, std::span<std::byte> scratchpad,
                const svd_options& options = {}, const std::vector<sycl::event>& dependencies = {});

/// rank(b) = the number of values s(b, i) above max(rtol * s(b, 0), atol), for matrices of m x n. rtol < 0 stands for
/// max(m, n) * eps. s (batch, min(m, n)) descending; a matrix whose s is NaN, or has overflowed, gets rank -1.
template <class T>
sycl::event numerical_rank(sycl::queue& queue, view<const T, 2> s, std::int64_t m, std::int64_t n, T rtol, T atol,
                           view<std::int64_t, 1> rank, const std::vector<sycl::event>& dependencies = {});

/// Tensors on the queue's device.
template <class T>
struct svd_result {
  tensor<T> s;                  ///< (batch, min(m, n))
  tensor<T> u, vt;              ///< as in the table above
  tensor<std::int32_t> status;  ///< (batch)
  tensor<std::int32_t> sweeps;  ///< (batch)
};

/// Allocates, decomposes a (batch, m, n) or (m, n), a batch of one, and waits. Throws computation_error with the ids of
/// the matrices that failed.
template <class T>
svd_result<T> svd(sycl::queue& queue, const tensor<T>& a, const svd_options& options = {});

/// Numerical ranks (batch) of the matrices of a (batch, m, n) or (m, n). Throws as `svd` does.
template <class T>
std::vector<std::int64_t> numerical_rank(sycl::queue& queue, const tensor<T>& a, T rtol = T(-1), T atol = T(0));

}  // namespace nullscope

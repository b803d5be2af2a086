/// Rank, range and left null space of T (S x d), for batches of heads, without an SVD of T and without an S x S
/// projector.
///
/// For an attention head T = V H, V (S x d_v) its values and H (d_v x d) its rows of the output projection. LN(T), the
/// rows x with x T = 0, is the orthogonal complement of the range of T; everything here works with an orthonormal basis
/// U (S x rank) of the range. Padding is the caller's business: slice the tokens that count.
///
/// T is float or double. All functions validate first: invalid_argument names the operand and its shape,
/// unsupported_device a device without fp64; nothing is overwritten then. Results are deterministic. Outputs overlap
/// nothing, unless said otherwise. Scratchpads are device memory of at least the size in bytes that the
/// `_scratchpad_size` function gives, wherever it begins.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nullscope/random.hpp>
#include <nullscope/tensor.hpp>
#include <nullscope/view.hpp>
#include <span>
#include <sycl/sycl.hpp>
#include <type_traits>
#include <vector>

namespace nullscope {

/// A singular value counts if it is above max(relative * the largest one, absolute).
struct rank_tolerance {
  double relative = -1;  ///< negative: max(S, d) * eps
  double absolute = 0;
};

/// Bytes that `range_basis` needs for v (batch, S, d_v) and h (batch, d_v, d).
template <class T>
std::int64_t range_basis_scratchpad_size(const sycl::queue& queue, std::int64_t batch, std::int64_t tokens,
                                         std::int64_t value_width, std::int64_t model_width);

/// Bytes that `range_basis` needs for a plain t (batch, S, d).
template <class T>
std::int64_t range_basis_scratchpad_size(const sycl::queue& queue, std::int64_t batch, std::int64_t tokens,
                                         std::int64_t model_width);

/// The range of T = v h for each head of a batch, with k = min(S, d_v, d):
///   u (batch, S, k)  orthonormal columns [0, rank), left singular vectors of T; the columns after them are zero
///   s (batch, k)     the singular values of T, descending
///   rank (batch)     how many count; dim LN(T) = S - rank
///   status (batch)   as `svd` gives it
/// A head with NaN or infinity gets svd_not_finite, rank -1 and NaN in u and s, and no other head does. One that does
/// not converge, or whose largest singular value overflows, gets rank -1 and NaN in u: its range is not known, and what
/// is made with u is NaN as well. A column of v whose length overflows counts as infinity, however small h is.
/// h may have batch stride 0. V = Q R, then the LQ of R H (d_v x d), then the SVD of a d_v x d_v matrix, then U = Q U':
/// O(S d_v^2 + d d_v^2) operations and O(S d_v + d d_v) memory a head.
template <class T>
sycl::event range_basis(sycl::queue& queue, std::type_identity_t<view<const T, 3>> v,
                        std::type_identity_t<view<const T, 3>> h, view<T, 3> u, view<T, 2> s,
                        view<std::int64_t, 1> rank, view<std::int32_t, 1> status, std::span<std::byte> scratchpad,
                        const rank_tolerance& tolerance = {}, const std::vector<sycl::event>& dependencies = {});

/// The same for a T that does not come factored, t (batch, S, d), with k = min(S, d): O(S d^2) operations.
template <class T>
sycl::event range_basis(sycl::queue& queue, std::type_identity_t<view<const T, 3>> t, view<T, 3> u, view<T, 2> s,
                        view<std::int64_t, 1> rank, view<std::int32_t, 1> status, std::span<std::byte> scratchpad,
                        const rank_tolerance& tolerance = {}, const std::vector<sycl::event>& dependencies = {});

/// Bytes that `append_ones` needs for basis (batch, S, k + 1).
template <class T>
std::int64_t append_ones_scratchpad_size(std::int64_t batch, std::int64_t tokens);

/// Turns a basis of the range of T into one of span(T, 1), whose complement is LN([T, 1]): basis (batch, S, k + 1)
/// comes with orthonormal columns [0, rank) and zeros after them (what `range_basis` writes into its slice of k
/// columns, and a zero column). The part of 1 outside the span, if its length is above relative_tolerance * |1|,
/// becomes column `rank`, and rank_with_ones = rank + 1; otherwise, and wherever rank is S, rank_with_ones = rank. A
/// negative tolerance stands for max(S, k + 1) * eps; one below 2 sqrt(k + 1) eps counts as that, as rounding leaves
/// nearly as much of a vector in the span. dim LN([T, 1]) = S - rank_with_ones. rank -1 stays -1, and is what a head
/// gets whose rank is above S, or that has no column for 1.
template <class T>
sycl::event append_ones(sycl::queue& queue, view<T, 3> basis, view<const std::int64_t, 1> rank,
                        view<std::int64_t, 1> rank_with_ones, std::span<std::byte> scratchpad,
                        double relative_tolerance = -1, const std::vector<sycl::event>& dependencies = {});

/// Which part of a row a projection keeps.
enum class row_part {
  range,      ///< x U U^T, in the range of T
  null_space  ///< x - x U U^T, in LN(T)
};

/// Bytes that `project` and `random_null_space_rows` need for (batch, rows, S) and u (batch, S, columns).
template <class T>
std::int64_t project_scratchpad_size(std::int64_t batch, std::int64_t rows, std::int64_t columns);

/// out (batch, rows, S) = that part of x (batch, rows, S), by two products with u (batch, S, k), 4 rows S k operations.
/// u has orthonormal or zero columns. out may be x itself.
template <class T>
sycl::event project(sycl::queue& queue, row_part part, std::type_identity_t<view<const T, 3>> x,
                    std::type_identity_t<view<const T, 3>> u, view<T, 3> out, std::span<std::byte> scratchpad,
                    const std::vector<sycl::event>& dependencies = {});

/// out (batch, rows, S), densely packed: random rows of the complement of u (batch, S, k), normal with the identity of
/// the complement as their covariance. Numbers come from `stream` alone. Projected twice, so that they are orthogonal
/// to u to rounding even if the complement is small. The scratchpad is that of `project`.
template <class T>
sycl::event random_null_space_rows(sycl::queue& queue, std::type_identity_t<view<const T, 3>> u, view<T, 3> out,
                                   random_stream stream, std::span<std::byte> scratchpad,
                                   const std::vector<sycl::event>& dependencies = {});

/// Bytes that `null_space_basis` needs for u (batch, S, columns).
template <class T>
std::int64_t null_space_basis_scratchpad_size(const sycl::queue& queue, std::int64_t batch, std::int64_t tokens,
                                              std::int64_t columns);

/// An explicit orthonormal basis of the complement of u (batch, S, k), whose first rank columns count and whose others
/// are zero: null_basis (batch, S, S), columns [0, S - rank) orthonormal and orthogonal to u, the others zero. k <= S.
/// A head with rank -1 gets NaN. For moderate S: it has S^2 numbers.
template <class T>
sycl::event null_space_basis(sycl::queue& queue, std::type_identity_t<view<const T, 3>> u,
                             view<const std::int64_t, 1> rank, view<T, 3> null_basis, std::span<std::byte> scratchpad,
                             const std::vector<sycl::event>& dependencies = {});

/// What is known of the range of a batch of T (S x d), on the queue's device.
template <class T>
struct range_result {
  tensor<T> basis;                 ///< (batch, S, k + 1): columns [0, rank) of T, then 1 if asked for; zero after them
  tensor<T> s;                     ///< (batch, k)
  std::vector<std::int64_t> rank;  ///< of T
  std::vector<std::int64_t> null_dimension;            ///< dim LN(T) = S - rank
  std::vector<std::int64_t> rank_with_ones;            ///< of [T, 1]; empty if not asked for
  std::vector<std::int64_t> null_dimension_with_ones;  ///< dim LN([T, 1]); empty if not asked for
};

struct range_options {
  rank_tolerance tolerance = {};  ///< of the singular values of T
  bool with_ones = false;         ///< make it a basis of span(T, 1), with the tolerance of `append_ones`
};

/// Allocates, computes and waits. v (batch, S, d_v) or (S, d_v), h (batch, d_v, d), or (d_v, d) for the whole batch.
/// Throws computation_error with the ids of the heads that hold NaN or infinity, overflow, or did not converge.
template <class T>
range_result<T> range_basis(sycl::queue& queue, const tensor<T>& v, const tensor<T>& h,
                            const range_options& options = {});

/// The same for a plain t (batch, S, d) or (S, d).
template <class T>
range_result<T> range_basis(sycl::queue& queue, const tensor<T>& t, const range_options& options = {});

}  // namespace nullscope

/// Alternatives to an attention matrix (Brunner et al. 2020, section 3): other weights, rows in the simplex, that give
/// the head the same output; and the rank of their logits (Bhardwaj et al. 2021).
///
/// A row a of A (S weights) and a row x of LN([T, 1]), x T = 0 and x 1 = 0: a + lambda x has the same sum and the same
/// output, and no negative entry for 0 <= lambda <= lambda_max = min over x_j < 0 of a_j / -x_j.
///
/// `basis` (heads, S, k + 1) is an orthonormal basis of span(T, 1), zero columns after it: what `append_ones` makes of
/// the basis of `range_basis`. T is float or double; validation, errors and determinism as in null_space.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nullscope/random.hpp>
#include <nullscope/view.hpp>
#include <span>
#include <sycl/sycl.hpp>
#include <type_traits>
#include <vector>

namespace nullscope {

/// How the directions x are drawn.
enum class simplex_draw {
  projected,    ///< normal rows, projected to LN([T, 1]): O(S k) a row, any S
  coefficients  ///< an explicit basis of LN([T, 1]) times coefficients uniform in [-10, 10]: S^2 memory a head
};

struct simplex_options {
  simplex_draw draw = simplex_draw::projected;
  double share = 1;  ///< lambda = share * lambda_max; 1 puts a zero into every row
};

/// Bytes that `simplex_alternatives` needs for out (heads, alternatives, rows, tokens) and basis (heads, tokens,
/// columns), columns being k + 1.
template <class T>
std::int64_t simplex_alternatives_scratchpad_size(const sycl::queue& queue, std::int64_t heads,
                                                  std::int64_t alternatives, std::int64_t rows, std::int64_t tokens,
                                                  std::int64_t columns, const simplex_options& options = {});

/// out (heads, alternatives, rows, S), densely packed: for each row of a (heads, rows, S), `alternatives` other rows.
/// lambda (heads, alternatives, rows): the multiple of its direction that was added, zero where the null space is {0}.
/// rank (heads): columns of the basis that count, as `append_ones` gives them. A head with rank -1 gets NaN in out and
/// lambda, as does a row of a that holds NaN. Numbers come from `stream` alone.
template <class T>
sycl::event simplex_alternatives(sycl::queue& queue, std::type_identity_t<view<const T, 3>> a,
                                 std::type_identity_t<view<const T, 3>> basis, view<const std::int64_t, 1> rank,
                                 view<T, 4> out, view<T, 3> lambda, random_stream stream,
                                 std::span<std::byte> scratchpad, const simplex_options& options = {},
                                 const std::vector<sycl::event>& dependencies = {});

/// What must hold of an alternative; all three are zero, or rounding.
template <class T>
struct simplex_check {
  T sum_error;     ///< largest |sum of a row - sum of the row of a|
  T below_zero;    ///< largest amount by which an entry is negative
  T output_error;  ///< largest |(a' - a) B| over the columns of the basis B of span(T, 1), relative to |a' - a| + |a|
};

/// Bytes that `check_alternatives` needs; shapes as for `simplex_alternatives_scratchpad_size`.
template <class T>
std::int64_t check_alternatives_scratchpad_size(std::int64_t heads, std::int64_t alternatives, std::int64_t rows,
                                                std::int64_t tokens, std::int64_t columns);

/// checks (heads, alternatives) of what `simplex_alternatives` wrote into out, from the same a and basis.
template <class T>
sycl::event check_alternatives(sycl::queue& queue, std::type_identity_t<view<const T, 3>> a,
                               std::type_identity_t<view<const T, 3>> basis, std::type_identity_t<view<const T, 4>> out,
                               view<simplex_check<T>, 2> checks, std::span<std::byte> scratchpad,
                               const std::vector<sycl::event>& dependencies = {});

/// Bytes that `logit_rank` needs for a (batch, rows, tokens).
template <class T>
std::int64_t logit_rank_scratchpad_size(const sycl::queue& queue, std::int64_t batch, std::int64_t rows,
                                        std::int64_t tokens);

/// rank (batch) of the logits of the weights a (batch, rows, S): log(a) minus its first column, by batched SVD. Softmax
/// of q k^T with heads of dk has rank at most dk there. Weights of zero have no logit: their matrix gets rank -1, as
/// does one that the SVD fails on. A singular value counts above relative_tolerance times the largest; negative:
/// max(rows, S) * eps.
template <class T>
sycl::event logit_rank(sycl::queue& queue, view<const T, 3> a, view<std::int64_t, 1> rank,
                       std::span<std::byte> scratchpad, double relative_tolerance = -1,
                       const std::vector<sycl::event>& dependencies = {});

}  // namespace nullscope

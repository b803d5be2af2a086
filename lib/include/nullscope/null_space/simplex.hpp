/// Alternatives to an attention matrix (Brunner et al. 2020, section 3): other weights, with rows in the simplex, that
/// give the head the same output; and the rank of their logits (Bhardwaj et al. 2021).
///
/// For a row a of A (S weights) and a row x of LN([T, 1]), x T = 0 and x 1 = 0: a + lambda x has the same sum and gives
/// the same output, and has no negative entry for 0 <= lambda <= lambda_max = min over x_j < 0 of a_j / -x_j.
///
/// `basis` (heads, S, k + 1) is an orthonormal basis of span(T, 1) followed by zero columns: what `append_ones` makes
/// of the basis of `range_basis`. Errors and determinism as in null_space.hpp.
#pragma once

#include <cstdint>
#include <nullscope/core/context.hpp>
#include <nullscope/core/operation.hpp>
#include <nullscope/core/view.hpp>
#include <nullscope/linalg/random.hpp>
#include <nullscope/linalg/svd.hpp>
#include <sycl/sycl.hpp>

namespace nullscope {

/// How the directions x are drawn.
enum class simplex_draw {
  projected,    ///< normal rows, projected onto LN([T, 1]): O(S k) flops per row, any S
  coefficients  ///< an explicit basis of LN([T, 1]) times coefficients uniform in [-10, 10]: O(S^2) memory per head
};

template <class Number>
struct simplex_operands {
  view<const Number, 3> a;           ///< (heads, rows, S): the weights
  view<const Number, 3> basis;       ///< (heads, S, k + 1)
  view<const std::int64_t, 1> rank;  ///< (heads): columns of the basis that are not zero, from `append_ones`
};

template <class Number>
struct simplex_results {
  view<Number, 4> out;     ///< (heads, alternatives, rows, S), contiguous
  view<Number, 3> lambda;  ///< (heads, alternatives, rows): the multiple of its direction that was added
};

struct simplex_options {
  random_stream stream = {};  ///< the numbers depend on it alone
  simplex_draw draw = simplex_draw::projected;
  double share = 1;  ///< lambda = share * lambda_max, in [0, 1]; 1 puts a zero into every row
};

/// For each row of a, `alternatives` other rows. lambda is zero where the null space is {0}. A head with rank -1, and a
/// row of a that holds NaN, gets NaN in out and lambda.
sycl::event simplex_alternatives(context& ctx, const simplex_operands<float>& operands,
                                 const simplex_results<float>& results, const simplex_options& options = {},
                                 const events& dependencies = {});
sycl::event simplex_alternatives(context& ctx, const simplex_operands<double>& operands,
                                 const simplex_results<double>& results, const simplex_options& options = {},
                                 const events& dependencies = {});

/// What must hold of an alternative; all three are zero up to rounding.
template <class Number>
struct simplex_check {
  Number sum_error;   ///< largest |sum of a row - sum of the row of a|
  Number below_zero;  ///< largest amount by which an entry is negative
  Number
      output_error;  ///< largest |(a' - a) B| over the columns of the basis B of span(T, 1), relative to |a' - a| + |a|
};

/// Weights and what `simplex_alternatives` made of them.
template <class Number>
struct alternatives {
  view<const Number, 3> a;      ///< (heads, rows, S)
  view<const Number, 3> basis;  ///< (heads, S, k + 1)
  view<const Number, 4> out;    ///< (heads, alternatives, rows, S), contiguous
};

/// checks (heads, alternatives): the worst of all rows of each alternative.
sycl::event check_alternatives(context& ctx, const alternatives<float>& operands, view<simplex_check<float>, 2> checks,
                               const events& dependencies = {});
sycl::event check_alternatives(context& ctx, const alternatives<double>& operands,
                               view<simplex_check<double>, 2> checks, const events& dependencies = {});

/// rank (batch) of the logits of the weights a (batch, rows, S): log(a) minus its first column, by batched SVD. For a =
/// softmax(q k^T) with heads of d_k it is at most d_k. A weight of zero has no logit: its matrix gets rank -1, as does
/// one on which the SVD fails. The default tolerance is max(rows, S) * eps. rows and S are at least 1.
sycl::event logit_rank(context& ctx, view<const float, 3> a, view<std::int64_t, 1> rank,
                       const rank_tolerance& tolerance = {}, const events& dependencies = {});
sycl::event logit_rank(context& ctx, view<const double, 3> a, view<std::int64_t, 1> rank,
                       const rank_tolerance& tolerance = {}, const events& dependencies = {});

}  // namespace nullscope

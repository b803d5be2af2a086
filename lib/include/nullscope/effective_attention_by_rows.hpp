/// Effective attention of causal models, row by row.
///
/// A causal query i sees n_i = i + 1 + keys - queries keys. The projection of effective_attention.hpp, onto the range
/// of all of T, would give it weight on keys that it does not see. Here row i is projected onto the range of the first
/// n_i rows of T = v h alone:
///
///   row i of A_perp = o_i T_i^+, the smallest weights of the first n_i keys that give the head's output o_i
///
/// so that A_perp is as causal as A. Row i differs from that of A only from the first key on that depends on the ones
/// before it: as long as n_i <= d_v, T_i usually has full row rank and the null space is {0}.
///
/// With U (keys, c) the basis of the range of T, and P = A U, row i is (y_i U^T)_j for j < n_i, with y_i = G_i^+ p_i
/// and G_i the sum of u_j u_j^T over the first n_i keys. Rotations update a c x c factor of G_i, key by key: O(S c^2)
/// per head beside the attention itself, nothing is S x S.
///
/// A row of U belongs to the span of the ones before it if what is left of it is at most `row_tolerance` times as long
/// as the longest row of U. The error of row i is of the order of eps |a_i| times the condition number of the first n_i
/// rows of U, which is large only for prefixes with about as many rows as T has rank.
///
/// Deterministic. Throws as `effective_attention` does.
#pragma once

#include <nullscope/effective_attention.hpp>

namespace nullscope {

struct effective_attention_by_rows_options {
  double scale = 0;               ///< of the scores; 0: 1 / sqrt(d_k)
  rank_tolerance tolerance = {};  ///< of the singular values of T
  double row_tolerance = -1;      ///< negative: max(keys, d) eps
};

/// Operands and results as for `effective_attention`, with these differences: query i sees key j if j - keys <= i -
/// queries; p holds the rows y_i, so that A_perp is P U^T where query i sees key j and zero elsewhere (`attention_part`
/// with by_rows); the correlation of the summary is that of the pairs of entries that the mask lets see. s, rank and
/// status are those of T with all keys.
///
/// Cost: that of `effective_attention`, and 8 keys c^2 flops per head. Workspace: 3 c^2 + O(S (d_k + d_v)) per head.
sycl::event effective_attention_by_rows(context& ctx, const attention_heads<float>& operands,
                                        const effective_attention_results<float>& results,
                                        const effective_attention_by_rows_options& options = {},
                                        const events& dependencies = {});
sycl::event effective_attention_by_rows(context& ctx, const attention_heads<double>& operands,
                                        const effective_attention_results<double>& results,
                                        const effective_attention_by_rows_options& options = {},
                                        const events& dependencies = {});

}  // namespace nullscope

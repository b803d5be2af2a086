/// One SLALOM fit as the kernels see it, and the model at given importances.
///
/// Query i holds token j n_ij times. With e_j = exp(s_j) and Z_i = sum_j n_ij e_j, the weight of a token in a query is
/// alpha_ij = n_ij e_j / Z_i, and the model predicts F_ic = sum_j alpha_ij v_cj for class c. All rows are multiplied by
/// the root of the query's weight, so that the sum of squares below is the weighted one.
#pragma once

#include <cstdint>
#include <sycl/sycl.hpp>

#include "kernels/linalg/cholesky.hpp"

namespace nullscope::kernels {

/// Entries are the tokens of the queries. Sparse: those of query i are row_begin[i] to row_begin[i + 1] - 1, with
/// ascending tokens, and those of token j are column_entry[column_begin[j]] and on. Dense: that of token j in query i
/// is i * ld + j, with count 0 where the token is absent.
template <class T>
struct slalom_problem {
  std::int64_t queries, tokens, classes, ld;
  bool dense;
  const std::int64_t *row_begin, *column_begin, *column_entry;
  const std::int32_t *token, *entry_query;
  const T *count, *root_weight;  // (entries), (queries)
  const T* weight_up_to;         // (queries): sum of the weights of the queries up to this one; for random draws
  const T* target;               // (classes, queries), times root_weight
  T *alpha, *slope;              // (entries), times root_weight
  T* residual;                   // (classes, queries), times root_weight
  T *factor, *reduced, *work;    // (tokens, ld)
  T* vectors;                    // (slalom_vectors, ld)
  T *importance, *value;         // (tokens), (classes, tokens): the result
  T* figures;                    // (slalom_figures)

  T* vector(int i) const { return vectors + i * ld; }
};

/// Vectors of a problem: exp(s); scales and pivots of the values' equations; scales and pivots of the importances';
/// gradient, step, importances that are tried, the best so far; right-hand side.
enum slalom_vector {
  weights_of_tokens,
  value_scale,
  value_pivot,
  step_scale,
  step_pivot,
  gradient,
  step,
  tried,
  best,
  right_side,
  slalom_vectors
};

/// What a fit says about itself.
enum slalom_figure { sum_of_squares, iterations, converged, slalom_figures };

/// Numbers of a row of entries: (begin, end) of query i.
template <class T>
struct entry_range {
  std::int64_t begin, end;
  entry_range(const slalom_problem<T>& p, std::int64_t query)
      : begin(p.dense ? query * p.ld : p.row_begin[query]),
        end(p.dense ? query * p.ld + p.tokens : p.row_begin[query + 1]) {}
};
template <class T>
std::int64_t token_of(const slalom_problem<T>& p, std::int64_t query, std::int64_t entry) {
  return p.dense ? entry - query * p.ld : p.token[entry];
}

/// Moves s (tokens) so that its mean is 0.
template <class T, int Items>
void centre(group<Items>& members, T* s, std::int64_t tokens) {
  members.barrier();
  T sum(0);
  for (std::int64_t j = members.rank(); j < tokens; j += Items) sum += s[j];
  const T mean = members.sum(pack<T, 1>(sum)) / static_cast<T>(tokens);
  for (std::int64_t j = members.rank(); j < tokens; j += Items) s[j] -= mean;
  members.barrier();
}

/// alpha of every entry from the importances s.
template <class T, int Items>
void weigh_tokens(group<Items>& members, const slalom_problem<T>& p, const T* s) {
  T largest = -std::numeric_limits<T>::infinity();
  for (std::int64_t j = members.rank(); j < p.tokens; j += Items) largest = sycl::fmax(largest, s[j]);
  largest = members.largest(pack<T, 1>(largest));
  T* const weights = p.vector(weights_of_tokens);
  for (std::int64_t j = members.rank(); j < p.tokens; j += Items) weights[j] = sycl::exp(s[j] - largest);
  members.barrier();
  for (std::int64_t i = members.rank(); i < p.queries; i += Items) {
    const entry_range<T> entries(p, i);
    T total(0);
    for (std::int64_t e = entries.begin; e < entries.end; ++e) {
      p.alpha[e] = p.count[e] * weights[token_of(p, i, e)];
      total += p.alpha[e];
    }
    const T scale = total > 0 ? p.root_weight[i] / total : T(0);  // 0: every token of the query has underflowed
    for (std::int64_t e = entries.begin; e < entries.end; ++e) p.alpha[e] *= scale;
  }
  members.barrier();
}

/// to (tokens, ld) += left^T right in the columns from the diagonal on, or in all of them; left and right are numbers
/// of the entries.
template <int W, class T, int Items>
void add_entry_products(const group<Items>& members, const slalom_problem<T>& p, T* to, const T* left, const T* right,
                        bool upper) {
  if (p.dense) {
    add_product<W>(members, to, p.tokens, p.ld, coefficients<T>{left, p.ld, 1}, right, p.queries, T(1), upper);
  } else {
    for (std::int64_t j = members.rank(); j < p.tokens; j += Items) {
      T* const row = to + j * p.ld;
      for (std::int64_t k = p.column_begin[j]; k < p.column_begin[j + 1]; ++k) {
        const std::int64_t entry = p.column_entry[k], query = p.entry_query[entry];
        const T factor = left[entry];
        for (std::int64_t e = upper ? entry : p.row_begin[query]; e < p.row_begin[query + 1]; ++e) {
          row[p.token[e]] += factor * right[e];
        }
      }
    }
  }
  members.barrier();
}

/// to (tokens) += left^T x for numbers x of the queries.
template <class T, int Items>
void add_entry_sums(const group<Items>& members, const slalom_problem<T>& p, T* to, const T* left, const T* x) {
  for (std::int64_t j = members.rank(); j < p.tokens; j += Items) {
    T sum(0);
    if (p.dense) {
      for (std::int64_t i = 0; i < p.queries; ++i) sum += left[i * p.ld + j] * x[i];
    } else {
      for (std::int64_t k = p.column_begin[j]; k < p.column_begin[j + 1]; ++k) {
        sum += left[p.column_entry[k]] * x[p.entry_query[p.column_entry[k]]];
      }
    }
    to[j] += sum;
  }
  members.barrier();
}

/// residual = target - alpha v of one class. Returns its sum of squares.
template <class T, int Items>
T update_residual(group<Items>& members, const slalom_problem<T>& p, std::int64_t c, const T* v) {
  T sum(0);
  for (std::int64_t i = members.rank(); i < p.queries; i += Items) {
    const entry_range<T> entries(p, i);
    T rest = p.target[c * p.queries + i];
    for (std::int64_t e = entries.begin; e < entries.end; ++e) rest -= p.alpha[e] * v[token_of(p, i, e)];
    p.residual[c * p.queries + i] = rest;
    sum += rest * rest;
  }
  members.barrier();
  return members.sum(pack<T, 1>(sum));
}

/// slope = d F_ic / d s_j = alpha_ij (v_cj - F_ic) of every entry.
template <class T, int Items>
void update_slopes(const group<Items>& members, const slalom_problem<T>& p, std::int64_t c) {
  const T* const v = p.value + c * p.tokens;
  for (std::int64_t i = members.rank(); i < p.queries; i += Items) {
    const entry_range<T> entries(p, i);
    const T predicted = (p.target[c * p.queries + i] - p.residual[c * p.queries + i]) / p.root_weight[i];
    for (std::int64_t e = entries.begin; e < entries.end; ++e) {
      p.slope[e] = p.alpha[e] * (v[token_of(p, i, e)] - predicted);
    }
  }
  members.barrier();
}

}  // namespace nullscope::kernels

/// Standard errors of a SLALOM fit from the Jacobian of its least squares: the sandwich estimate, which does not assume
/// that residuals have one variance.
#pragma once

#include "kernels/explain/slalom_fit.hpp"

namespace nullscope::kernels {

/// What the errors of one fit need and give. Matrices are (tokens, ld), blocks (slalom_block, ld).
template <class T>
struct slalom_error_memory {
  T *value_inverse, *step_inverse;  // (alpha^T alpha)^-1; inverse of `reduced`
  T *follow, *follow_transposed;    // (classes, tokens, ld): N_c = (alpha^T alpha)^-1 alpha^T slope_c, and N_c^T
  T *pulls, *moves, *values;        // blocks
  T* sums;                          // (1 + 2 classes, ld): sums of squares and products of the influences
  T *importance_error, *value_error, *covariance;  // (tokens), (classes, tokens), (classes, tokens)
};

inline constexpr std::int64_t slalom_block = 32;  // queries that are handled together

/// The influence of query i on the importances is ds_i = P x_i with x_i = sum_c r_ic (slope_ic - N_c^T alpha_i) and P
/// the inverse of `reduced` on vectors that sum to 0; on the values of class c it is dv_i = r_ic (alpha^T alpha)^-1
/// alpha_i - N_c ds_i. Variances are sums of squares of influences. Runs after a fit, from p.importance.
template <class T, int W, int Items>
struct slalom_errors {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;

  const slalom_problem<T>* problems;
  const slalom_error_memory<T>* memory;
  T noise;  // a slope below this share of the targets is rounding

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    group<Items> members(item, local);
    const std::int64_t fit = members.number();
    const slalom_problem<T>& p = problems[fit];
    const slalom_error_memory<T>& m = memory[fit];
    fit_values<W>(members, p, p.importance);
    reduce_to_importances<W>(members, p);
    prepare(members, p, m);
    fill_rows<W>(members, m.sums, 1 + 2 * p.classes, p.ld, T(0));
    for (std::int64_t from = 0; from < p.queries; from += slalom_block) {
      const std::int64_t count = from + slalom_block < p.queries ? slalom_block : p.queries - from;
      add_influences(members, p, m, from, count);
    }
    finish(members, p, m);
  }

 private:
  /// Inverses, and N_c of every class. Leaves in `importance_error` and `value_error` infinity for what the queries say
  /// nothing about, otherwise 0.
  void prepare(group<Items>& members, const slalom_problem<T>& p, const slalom_error_memory<T>& m) const {
    const std::int64_t n = p.tokens, ld = p.ld;
    constexpr T infinity = std::numeric_limits<T>::infinity();
    invert<W>(members, p.factor, p.vector(value_pivot), p.vector(value_scale), n, ld, p.work, m.value_inverse);
    for (std::int64_t c = 0; c < p.classes; ++c) {
      T* const rows = m.follow + c * n * ld;
      T* const columns = m.follow_transposed + c * n * ld;
      update_slopes(members, p, c);
      for (T* matrix : {p.work, rows, columns}) fill_rows<W>(members, matrix, n, ld, T(0));
      members.barrier();
      add_entry_products<W>(members, p, p.work, p.alpha, p.slope, false);
      add_product<W>(members, rows, n, ld, coefficients<T>{m.value_inverse, ld, 1}, p.work, n, T(1));
      add_product<W>(members, columns, n, ld, coefficients<T>{p.work, ld, 1}, m.value_inverse, n, T(1));
      members.barrier();
      for (std::int64_t j = members.rank(); j < n; j += Items) {
        m.value_error[c * n + j] = p.vector(value_pivot)[j] == 0 ? infinity : T(0);
      }
    }
    // A slope of the size of rounding says nothing about an importance.
    T largest(0), squares(0);
    for (std::int64_t j = members.rank(); j < n; j += Items) largest = sycl::fmax(largest, p.reduced[j * ld + j]);
    for (std::int64_t i = members.rank(); i < p.classes * p.queries; i += Items) squares += p.target[i] * p.target[i];
    largest = members.largest(pack<T, 1>(largest));
    squares = members.sum(pack<T, 1>(squares));
    const T least = sycl::fmax(noise * noise * squares / static_cast<T>(n), rounding_pivot<T> * largest);
    for (std::int64_t j = members.rank(); j < n; j += Items) {
      m.importance_error[j] = p.reduced[j * ld + j] > least ? T(0) : infinity;
    }
    members.barrier();
    // Importances count up to a constant: `reduced` is singular along ones, and the influences have no part there.
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = i + members.rank(); j < n; j += Items) {
        p.reduced[i * ld + j] += largest / static_cast<T>(n);
      }
    }
    scale_to_unit_diagonal<W>(members, p.reduced, n, ld, p.vector(step_scale), least);
    for (std::int64_t j = members.rank(); j < n; j += Items) p.reduced[j * ld + j] = 1;
    cholesky<W>(members, p.reduced, n, ld, p.vector(step_pivot), 16 * rounding_pivot<T>);
    invert<W>(members, p.reduced, p.vector(step_pivot), p.vector(step_scale), n, ld, p.work, m.step_inverse);
    for (std::int64_t j = members.rank(); j < n; j += Items) {
      if (p.vector(step_pivot)[j] == 0) m.importance_error[j] = infinity;
    }
    members.barrier();
  }

  /// Adds the influences of queries [from, from + count) to the sums.
  void add_influences(const group<Items>& members, const slalom_problem<T>& p, const slalom_error_memory<T>& m,
                      std::int64_t from, std::int64_t count) const {
    const std::int64_t n = p.tokens, ld = p.ld;
    fill_rows<W>(members, m.pulls, count, ld, T(0));
    fill_rows<W>(members, m.moves, count, ld, T(0));
    members.barrier();
    for (std::int64_t c = 0; c < p.classes; ++c) {
      for (std::int64_t q = 0; q < count; ++q) {
        const std::int64_t i = from + q;
        const entry_range<T> entries(p, i);
        const T r = p.residual[c * p.queries + i], weight = p.root_weight[i];
        const T predicted = (p.target[c * p.queries + i] - r) / weight;
        T* const pull = m.pulls + q * ld;
        for (std::int64_t e = entries.begin; e < entries.end; ++e) {
          const std::int64_t j = token_of(p, i, e);
          const T pulled = r / weight * p.alpha[e];  // so that a query of weight w counts as w queries
          if (pulled == 0) continue;
          add_row<W>(members, pull, m.follow + (c * n + j) * ld, ld, -pulled);
          members.barrier();
          if (members.rank() == 0) pull[j] += pulled * (p.value[c * n + j] - predicted);
          members.barrier();
        }
      }
    }
    add_product<W>(members, m.moves, count, ld, coefficients<T>{m.pulls, 1, ld}, m.step_inverse, n, T(1));
    members.barrier();
    add_squares(members, p, count, m.sums, m.moves, m.moves);
    for (std::int64_t c = 0; c < p.classes; ++c) {
      fill_rows<W>(members, m.values, count, ld, T(0));
      members.barrier();
      for (std::int64_t q = 0; q < count; ++q) {
        const std::int64_t i = from + q;
        const entry_range<T> entries(p, i);
        const T r = p.residual[c * p.queries + i] / p.root_weight[i];
        for (std::int64_t e = entries.begin; e < entries.end; ++e) {
          const T* const inverse = m.value_inverse + token_of(p, i, e) * ld;
          if (p.alpha[e] != 0) add_row<W>(members, m.values + q * ld, inverse, ld, r * p.alpha[e]);
        }
      }
      members.barrier();
      add_product<W>(members, m.values, count, ld, coefficients<T>{m.moves, 1, ld}, m.follow_transposed + c * n * ld, n,
                     T(-1));
      members.barrier();
      add_squares(members, p, count, m.sums + (1 + c) * ld, m.values, m.values);
      add_squares(members, p, count, m.sums + (1 + p.classes + c) * ld, m.values, m.moves);
    }
  }

  /// sums[:] += sum over the block of a[:] b[:].
  static void add_squares(const group<Items>& members, const slalom_problem<T>& p, std::int64_t count, T* sums,
                          const T* a, const T* b) {
    for (std::int64_t q = 0; q < count; ++q) {
      for (std::int64_t j = members.rank(); j < p.tokens; j += Items) sums[j] += a[q * p.ld + j] * b[q * p.ld + j];
    }
    members.barrier();
  }

  /// Roots of the sums, times the correction for as many unknowns as there are.
  void finish(const group<Items>& members, const slalom_problem<T>& p, const slalom_error_memory<T>& m) const {
    const std::int64_t free = p.classes > 1 ? p.classes - 1 : 1;  // several classes sum to 0
    const T equations = static_cast<T>(free * p.queries), unknowns = static_cast<T>((1 + free) * p.tokens - 1);
    const T correction =
        equations > unknowns ? equations / (equations - unknowns) : std::numeric_limits<T>::quiet_NaN();
    for (std::int64_t j = members.rank(); j < p.tokens; j += Items) {
      m.importance_error[j] += sycl::sqrt(correction * m.sums[j]);
      for (std::int64_t c = 0; c < p.classes; ++c) {
        m.value_error[c * p.tokens + j] += sycl::sqrt(correction * m.sums[(1 + c) * p.ld + j]);
        m.covariance[c * p.tokens + j] = correction * m.sums[(1 + p.classes + c) * p.ld + j];
      }
    }
  }
};

}  // namespace nullscope::kernels

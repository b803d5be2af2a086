/// Linear least squares with a ridge or a lasso penalty, one group per fit.
#pragma once

#include <limits>

#include "kernels/linalg/cholesky.hpp"

namespace nullscope::kernels {

/// Rows are multiplied by the root of their weight. `ridge` and `lasso` (features) are the penalties of each feature.
template <class T>
struct linear_problem {
  std::int64_t rows, features, ld;
  const T *x, *target;     // (rows, ld) with zeros beyond the features, (rows)
  const T *ridge, *lasso;  // (features)
  T* gram;                 // (features, ld)
  bool has_gram;           // gram holds x^T x already, both triangles
  T* vectors;              // (3, ld)
  T* coefficients;         // (ld): the result
};

/// Minimises |target - x w|^2 + sum_j ridge_j w_j^2 + 2 sum_j lasso_j |w_j|. Without lasso by Cholesky, with one step
/// of refinement; with it by coordinate descent on x^T x.
template <class T, int W, int Items>
struct linear_fit {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;

  const linear_problem<T>* problems;
  bool has_lasso;
  std::int64_t sweeps;  // at most, of coordinate descent
  T tolerance;          // largest step, relative to the largest coefficient, at which it ends

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    group<Items> members(item, local);
    const linear_problem<T> p = problems[members.number()];
    if (!p.has_gram) {
      fill_rows<W>(members, p.gram, p.features, p.ld, T(0));
      members.barrier();
      add_product<W>(members, p.gram, p.features, p.ld, coefficients<T>{p.x, p.ld, 1}, p.x, p.rows, T(1), !has_lasso);
      members.barrier();
    }
    for (std::int64_t j = members.rank(); j < p.features; j += Items) p.gram[j * p.ld + j] += p.ridge[j];
    fill_rows<W>(members, p.coefficients, 1, p.ld, T(0));
    members.barrier();
    if (has_lasso) {
      descend(members, p);
    } else {
      solve_normal_equations(members, p);
    }
  }

 private:
  /// slope (features) = x^T (target - x w) - ridge w.
  void residual_slope(group<Items>& members, const linear_problem<T>& p, T* slope) const {
    constexpr int step = matrix_step<W>;
    using numbers = pack<T, step>;
    fill_rows<W>(members, slope, 1, p.ld, T(0));
    members.barrier();
    for (std::int64_t i = 0; i < p.rows; ++i) {
      const T* const row = p.x + i * p.ld;
      numbers sum(T(0));  // beyond the features, x and w are 0
      for (std::int64_t j = members.rank() * step; j < p.ld; j += Items * step) {
        sum = fma(load<step>(row + j), load<step>(p.coefficients + j), sum);
      }
      const T rest = p.target[i] - members.sum(sum);
      add_row<W>(members, slope, row, p.ld, rest);
    }
    members.barrier();
    for (std::int64_t j = members.rank(); j < p.features; j += Items) slope[j] -= p.ridge[j] * p.coefficients[j];
    members.barrier();
  }

  void solve_normal_equations(group<Items>& members, const linear_problem<T>& p) const {
    T* const scale = p.vectors;
    T* const pivot = p.vectors + p.ld;
    T* const x = p.vectors + 2 * p.ld;
    scale_to_unit_diagonal<W>(members, p.gram, p.features, p.ld, scale, T(0));
    cholesky<W>(members, p.gram, p.features, p.ld, pivot, 64 * std::numeric_limits<T>::epsilon());
    for (int round = 0; round < 2; ++round) {  // the second one corrects the rounding of the first
      residual_slope(members, p, x);
      for (std::int64_t j = members.rank(); j < p.features; j += Items) x[j] *= scale[j];
      solve<W>(members, p.gram, pivot, p.features, p.ld, x);
      for (std::int64_t j = members.rank(); j < p.features; j += Items) p.coefficients[j] += scale[j] * x[j];
      members.barrier();
    }
  }

  void descend(group<Items>& members, const linear_problem<T>& p) const {
    T* const slope = p.vectors;
    residual_slope(members, p, slope);
    for (std::int64_t sweep = 0; sweep < sweeps; ++sweep) {
      T largest_step(0), largest(0);
      for (std::int64_t j = 0; j < p.features; ++j) {
        const T diagonal = p.gram[j * p.ld + j], old = p.coefficients[j];
        if (!(diagonal > 0)) continue;
        const T pull = slope[j] + diagonal * old, size = sycl::fabs(pull) - p.lasso[j];
        const T now = size > 0 ? sycl::copysign(size, pull) / diagonal : T(0);
        members.barrier();
        if (now != old) {
          add_row<W>(members, slope, p.gram + j * p.ld, p.ld, old - now);
          if (members.rank() == 0) p.coefficients[j] = now;
        }
        members.barrier();
        largest_step = sycl::fmax(largest_step, sycl::fabs(now - old));
        largest = sycl::fmax(largest, sycl::fabs(now));
      }
      if (largest_step <= tolerance * largest) return;
    }
  }
};

}  // namespace nullscope::kernels

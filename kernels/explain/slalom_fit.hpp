/// Least-squares fits of SLALOM, one group per fit.
#pragma once

#include <limits>

#include "kernels/explain/slalom_problem.hpp"
#include "kernels/group/sub_group_size.hpp"

namespace nullscope::kernels {

/// A pivot below this share of its column is rounding.
template <class T>
inline constexpr T rounding_pivot = 64 * std::numeric_limits<T>::epsilon();

/// The values that fit best to the importances s: alpha^T alpha v = alpha^T target for every class, by Cholesky.
/// Leaves alpha, factor, value and residual. Returns the sum of squares.
template <int W, class T, int Items>
T fit_values(group<Items>& members, const slalom_problem<T>& p, const T* s) {
  weigh_tokens(members, p, s);
  fill_rows<W>(members, p.factor, p.tokens, p.ld, T(0));
  for (std::int64_t j = members.rank(); j < p.classes * p.tokens; j += Items) p.value[j] = 0;
  members.barrier();
  add_entry_products<W>(members, p, p.factor, p.alpha, p.alpha, true);
  T* const scale = p.vector(value_scale);
  T* const pivot = p.vector(value_pivot);
  T* const x = p.vector(right_side);
  scale_to_unit_diagonal<W>(members, p.factor, p.tokens, p.ld, scale, T(0));
  cholesky<W>(members, p.factor, p.tokens, p.ld, pivot, rounding_pivot<T>);
  T sum(0);
  for (std::int64_t c = 0; c < p.classes; ++c) {
    T* const v = p.value + c * p.tokens;
    T squares = update_residual(members, p, c, v);
    for (int round = 0; round < 2; ++round) {  // the second one corrects the rounding of the first
      for (std::int64_t j = members.rank(); j < p.tokens; j += Items) x[j] = 0;
      members.barrier();
      add_entry_sums(members, p, x, p.alpha, p.residual + c * p.queries);
      for (std::int64_t j = members.rank(); j < p.tokens; j += Items) x[j] *= scale[j];
      solve<W>(members, p.factor, pivot, p.tokens, p.ld, x);
      for (std::int64_t j = members.rank(); j < p.tokens; j += Items) v[j] += scale[j] * x[j];
      members.barrier();
      squares = update_residual(members, p, c, v);
    }
    sum += squares;
  }
  return sum;
}

/// reduced = sum over classes of slope^T (1 - alpha alpha^+) slope: the normal equations of the importances once the
/// values follow them (variable projection, with Kaufman's simplification), and their right-hand side, `gradient`.
/// After fit_values.
template <int W, class T, int Items>
void reduce_to_importances(group<Items>& members, const slalom_problem<T>& p) {
  T* const right = p.vector(gradient);
  for (std::int64_t j = members.rank(); j < p.tokens; j += Items) right[j] = 0;
  fill_rows<W>(members, p.reduced, p.tokens, p.ld, T(0));
  members.barrier();
  for (std::int64_t c = 0; c < p.classes; ++c) {
    update_slopes(members, p, c);
    add_entry_sums(members, p, right, p.slope, p.residual + c * p.queries);
    add_entry_products<W>(members, p, p.reduced, p.slope, p.slope, true);
    fill_rows<W>(members, p.work, p.tokens, p.ld, T(0));
    members.barrier();
    add_entry_products<W>(members, p, p.work, p.alpha, p.slope, false);
    for (std::int64_t j = 0; j < p.tokens; ++j) {
      scale_row<W>(members, p.work + j * p.ld, p.ld, p.vector(value_scale)[j]);
    }
    solve_transposed<W>(members, p.factor, p.vector(value_pivot), p.tokens, p.ld, p.work);
    add_product<W>(members, p.reduced, p.tokens, p.ld, coefficients<T>{p.work, p.ld, 1}, p.work, p.tokens, T(-1), true);
    members.barrier();
  }
}

template <class T>
struct slalom_limits {
  std::int64_t iterations;
  T tolerance;  // relative decrease of the sum of squares, and step, below which a fit is done
};

/// Levenberg-Marquardt over the importances; each trial solves for the values. The damping follows the ratio of the
/// decrease to what the linear model promised. Starts at p.importance and overwrites it.
template <class T, int W, int Items>
struct slalom_fit {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;
  static constexpr int sub_group_size = one_work_item ? 0 : narrow_sub_group;

  const slalom_problem<T>* problems;
  slalom_limits<T> limits;

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    group<Items> members(item, local);
    const slalom_problem<T>& p = problems[members.number()];
    T* const s = p.vector(best);
    T* const trial = p.vector(tried);
    for (std::int64_t j = members.rank(); j < p.tokens; j += Items) s[j] = p.importance[j];
    centre(members, s, p.tokens);
    T squares = fit_values<W>(members, p, s), scale = squares_of_targets(members, p);
    T damping = T(1e-3);
    bool is_done = false;
    std::int64_t round = 0;
    for (; round < limits.iterations && !is_done; ++round) {
      reduce_to_importances<W>(members, p);
      is_done = true;  // until a step succeeds
      while (damping < T(1e12)) {
        const step_report found = take_step(members, p, s, trial, damping);
        if (found.largest <= std::numeric_limits<T>::epsilon()) break;
        const T after = fit_values<W>(members, p, trial);
        const T gain = (squares - after) / found.promised;
        if (after < squares && gain > T(1e-4)) {
          is_done =
              squares - after <= limits.tolerance * squares || found.largest <= limits.tolerance || after <= scale;
          squares = after;
          members.barrier();
          for (std::int64_t j = members.rank(); j < p.tokens; j += Items) s[j] = trial[j];
          members.barrier();
          damping *= gain > T(0.75) ? T(0.1) : gain < T(0.25) ? T(4) : T(0.5);
          damping = sycl::fmax(damping, T(1e-12));
          break;
        }
        damping *= 8;
      }
    }
    squares = fit_values<W>(members, p, s);  // what was tried last may have been refused
    for (std::int64_t j = members.rank(); j < p.tokens; j += Items) p.importance[j] = s[j];
    if (members.rank() != 0) return;
    p.figures[sum_of_squares] = squares;
    p.figures[iterations] = static_cast<T>(round);
    p.figures[converged] = is_done ? 1 : 0;
  }

 private:
  struct step_report {
    T largest, promised;  // largest |step|; decrease of the sum of squares by the linear model
  };

  /// The sum of squares that is rounding: of the targets, times eps^2.
  static T squares_of_targets(group<Items>& members, const slalom_problem<T>& p) {
    T sum(0);
    for (std::int64_t i = members.rank(); i < p.classes * p.queries; i += Items) sum += p.target[i] * p.target[i];
    constexpr T eps = std::numeric_limits<T>::epsilon();
    return members.sum(pack<T, 1>(sum)) * eps * eps;
  }

  /// trial = s + step, where (reduced + damping diagonal) step = gradient. A step that would move an importance by more
  /// than 4 is shortened.
  static step_report take_step(group<Items>& members, const slalom_problem<T>& p, const T* s, T* trial, T damping) {
    const T* const right = p.vector(gradient);
    T* const x = p.vector(step);
    T* const scale = p.vector(step_scale);
    members.barrier();
    for (std::int64_t i = 0; i < p.tokens; ++i) {
      for (std::int64_t j = i + members.rank(); j < p.tokens; j += Items) {
        p.work[i * p.ld + j] = p.reduced[i * p.ld + j];
      }
    }
    scale_to_unit_diagonal<W>(members, p.work, p.tokens, p.ld, scale, T(0));
    for (std::int64_t j = members.rank(); j < p.tokens; j += Items) {
      p.work[j * p.ld + j] = 1 + damping;
      x[j] = right[j] * scale[j];
    }
    cholesky<W>(members, p.work, p.tokens, p.ld, p.vector(step_pivot), std::numeric_limits<T>::epsilon());
    solve<W>(members, p.work, p.vector(step_pivot), p.tokens, p.ld, x);
    T largest(0), promised(0);
    for (std::int64_t j = members.rank(); j < p.tokens; j += Items) {
      promised += x[j] * (right[j] * scale[j] + damping * x[j]);
      x[j] *= scale[j];
      largest = sycl::fmax(largest, sycl::fabs(x[j]));
    }
    largest = members.largest(pack<T, 1>(largest));
    promised = members.sum(pack<T, 1>(promised));
    const T shortening = largest > 4 ? 4 / largest : T(1);
    for (std::int64_t j = members.rank(); j < p.tokens; j += Items) trial[j] = s[j] + shortening * x[j];
    centre(members, trial, p.tokens);
    return {largest, promised};
  }
};

}  // namespace nullscope::kernels

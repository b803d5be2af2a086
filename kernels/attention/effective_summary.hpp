/// Correlation and norms of raw and effective attention, from sums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <nullscope/core/view.hpp>
#include <sycl/sycl.hpp>

#include "kernels/group/group.hpp"

namespace nullscope::kernels {

/// What correlation and norms of one head need, with <A, A_perp> = |A_perp|^2 and n pairs of entries:
///   covariance = |A_perp|^2 - sum A sum A_perp / n,  variance = |A|^2 - (sum A)^2 / n, the same for A_perp
template <class Sum>
struct attention_moments {
  Sum raw_squares, squares;  // |A|^2, |A_perp|^2
  Sum raw_sum, sum;
  Sum pairs;
  bool has_null_space;

  Sum raw_variance() const { return raw_squares - raw_sum * raw_sum / pairs; }
  Sum variance() const { return squares - sum * sum / pairs; }

  /// Whether there is a correlation, for numbers rounded to `epsilon`.
  bool varies(Sum epsilon) const {
    // A variance of zero comes out as large as this, by rounding.
    const Sum noise = 8 * epsilon / pairs;
    return raw_variance() > noise * raw_sum * raw_sum && variance() > noise * sum * sum && pairs > 0;
  }

  Sum correlation() const {
    return (squares - raw_sum * sum / pairs) / (sycl::sqrt(raw_variance()) * sycl::sqrt(variance()));
  }

  /// |A_par|^2. Negative only by rounding; if the null space is {0}, it is nothing but rounding.
  Sum null_squares() const {
    const Sum rest = raw_squares - squares;
    return rest < 0 || !has_null_space ? Sum(0) : rest;
  }

  /// summary (heads, 4): correlation, norms of A, A_perp, A_par.
  template <class T>
  void write(const view<T, 2>& summary, std::int64_t head) const {
    const Sum value = varies(static_cast<Sum>(std::numeric_limits<T>::epsilon()))
                          ? correlation()
                          : std::numeric_limits<Sum>::quiet_NaN();
    summary(head, 0) = static_cast<T>(value > 1 ? Sum(1) : value);
    summary(head, 1) = static_cast<T>(sycl::sqrt(raw_squares));
    summary(head, 2) = static_cast<T>(sycl::sqrt(squares));
    summary(head, 3) = static_cast<T>(sycl::sqrt(null_squares()));
  }
};

/// With A_perp = P U^T: |A_perp|^2 = |P|^2, sum A = visible queries, sum A_perp = (1^T P)(U^T 1), n = queries * keys.
///
/// One work-group per head adds up the results of block_sums: of P (heads, blocks, 2, k), of U, and of the squares of
/// the rows of A (heads, blocks, 2, 1). Sums are taken in Sum: the variances are differences of numbers that may be
/// close.
template <class T, class Sum, int Items>
struct effective_summary {
  static constexpr const char* source = __FILE__;
  using number = pack<Sum, 1>;

  view<const T, 4> p_sums, u_sums, row_squares;
  view<T, 2> p_columns;              // (heads, k): 1^T P
  view<T, 2> summary;                // (heads, 4): correlation, norms of A, A_perp, A_par; data is null: not asked for
  view<const std::int64_t, 1> rank;  // (heads)
  std::int64_t queries, visible_queries, keys;

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    group<Items> members(item, local);
    const std::int64_t head = members.number(), columns = p_sums.extent[3];
    Sum squares = 0, total = 0;  // |P|^2 and sum A_perp, this work-item's columns
    for (std::int64_t c = members.rank(); c < columns; c += Items) {
      const Sum p_column = over_blocks(p_sums, head, 0, c);
      p_columns(head, c) = static_cast<T>(p_column);
      total += p_column * over_blocks(u_sums, head, 0, c);
      squares += over_blocks(p_sums, head, 1, c);
    }
    squares = members.sum(number(squares));
    total = members.sum(number(total));
    if (summary.data == nullptr || members.rank() != 0) return;

    const attention_moments<Sum> moments{over_blocks(row_squares, head, 0, 0),
                                         squares,
                                         static_cast<Sum>(visible_queries),
                                         total,
                                         static_cast<Sum>(queries) * static_cast<Sum>(keys),
                                         rank(head) != keys};
    moments.write(summary, head);
  }

 private:
  static Sum over_blocks(const view<const T, 4>& sums, std::int64_t head, int which, std::int64_t column) {
    Sum sum = 0;
    for (std::int64_t block = 0; block < sums.extent[1]; ++block) {
      sum += static_cast<Sum>(sums(head, block, which, column));
    }
    return sum;
  }
};

}  // namespace nullscope::kernels

/// Layer normalisation along the rows of a batch of matrices.
#pragma once

#include <nullscope/core/view.hpp>

#include "kernels/linalg/row.hpp"

namespace nullscope::kernels {

/// y (batch, rows, columns) = (x - mean) * rstd * gamma + beta with rstd = 1 / sqrt(variance + epsilon); gamma and beta
/// (columns); mean and rstd (batch, rows) are optional results. One group per row; it takes `rows_per_group` rows one
/// after the other.
///
/// Three passes, the second and third of them from cache. The second sums d = x - (first mean) and d^2: the mean of d
/// corrects the rounding of the first mean, so that a large offset (mean 1e4, deviation 1) costs no accuracy. The next
/// rows are prefetched while these are written, four at a time if it streams.
template <class T, int W, int Items, bool Streams>
struct row_layer_norm {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;
  static constexpr int at_once = Streams ? places_written<T, W> : 1;
  using numbers = pack<T, W>;

  view<const T, 3> x;
  view<T, 3> y;
  view<const T, 1> gamma, beta;  // null: ones and zeros
  view<T, 2> mean, rstd;         // null: not asked for
  T epsilon;
  std::int64_t rows_per_group;
  std::int64_t busy_groups = all_groups;  // the launch sets it, and puts several into a work-group

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    group<Items> members(item, local, busy_groups);
    row_range rows(x, members.number(), rows_per_group);
    T sum[at_once];
    bool is_known = false;
    while (rows.has(at_once)) {
      const row_index i = rows.current();
      if (!is_known) sums_of(members, i, sum);
      rows.advance(at_once);
      is_known = Items == 1 && rows.has(at_once);
      some_rows(members, i, sum, is_known ? rows.current() : i);
    }
    if constexpr (at_once > 1) {
      for (; !rows.empty(); rows.advance(1)) {
        T one[1];
        sums_of(members, rows.current(), one);
        some_rows(members, rows.current(), one, rows.current());
      }
    }
  }

  template <int Rows>
  void sums_of(group<Items>& members, row_index i, T (&sum)[Rows]) const {
    const auto add = [](auto a, auto b) { return a + b; };
    reduce_rows<T, W>(
        members, x.extent[2], T(0),
        [&](int r, std::int64_t c, auto lanes) { return row_of<W>(x, i, r).load(c, lanes); }, add, add, sum);
  }

  /// `first_sum` holds the sums of these rows on entry, and, if Items is 1, those of the rows from `next` on on return.
  template <int Rows>
  void some_rows(group<Items>& members, row_index i, T (&first_sum)[Rows], row_index next) const {
    const std::int64_t columns = x.extent[2];
    const T count = static_cast<T>(columns);
    const auto add = [](auto a, auto b) { return a + b; };
    constexpr int slots = sum_slots<T, W, Rows>;
    numbers sum[Rows][slots], squares[Rows][slots], first_mean[Rows];
    unrolled<Rows>([&](auto r) {
      first_mean[r] = numbers(first_sum[r] / count);
      unrolled<slots>([&](auto slot) { sum[r][slot] = squares[r][slot] = numbers(0); });
    });
    walk<W, slots>(members, columns, [&](auto slot, std::int64_t c, auto lanes) {
      unrolled<Rows>([&](auto r) {
        const numbers d = row_of<W>(x, i, r).load(c, lanes, first_mean[r][0]) - first_mean[r];
        sum[r][slot] += d;
        squares[r][slot] = fma(d, d, squares[r][slot]);
      });
    });

    numbers scale[Rows], shift[Rows];
    unrolled<Rows>([&](auto r) {
      const T correction = members.sum(merge_slots(sum[r], add)) / count;
      const T mean_square = members.sum(merge_slots(squares[r], add)) / count;
      // Negative only by rounding. A variance that overflows makes the row NaN instead of zero.
      const T variance = mean_square - correction * correction;
      const T factor = variance < std::numeric_limits<T>::infinity()
                           ? 1 / sycl::sqrt((variance < 0 ? T(0) : variance) + epsilon)
                           : std::numeric_limits<T>::quiet_NaN();
      scale[r] = numbers(factor);
      shift[r] = numbers(-correction * factor);
      if (members.rank() == 0) {
        if (mean.data != nullptr) mean(i.batch, i.row + r) = first_mean[r][0] + correction;
        if (rstd.data != nullptr) rstd(i.batch, i.row + r) = factor;
      }
    });

    const row<const T, W> weights{gamma.data, gamma.stride[0]}, offsets{beta.data, beta.stride[0]};
    const std::int64_t distance = fetch_distance<at_once>(x);
    numbers ahead[Rows][slots];
    unrolled<Rows>([&](auto r) { unrolled<slots>([&](auto slot) { ahead[r][slot] = numbers(0); }); });
    walk<W, slots>(members, columns, [&](auto slot, std::int64_t c, auto lanes) {
      const numbers weight = gamma.data != nullptr ? weights.load(c, lanes) : numbers(1);
      const numbers offset = beta.data != nullptr ? offsets.load(c, lanes) : numbers(0);
      unrolled<Rows>([&](auto r) {
        const numbers z = fma(row_of<W>(x, i, r).load(c, lanes) - first_mean[r], scale[r], shift[r]);
        row_of<W, Streams>(y, i, r).store(c, fma(z, weight, offset), lanes);
        row_of<W>(x, next, r).fetch(c, distance, lanes);
        if constexpr (Items == 1) ahead[r][slot] += row_of<W>(x, next, r).load(c, lanes);
      });
    });
    if constexpr (Items == 1) {
      unrolled<Rows>([&](auto r) { first_sum[r] = kernels::sum(merge_slots(ahead[r], add)); });
    }
  }
};

}  // namespace nullscope::kernels

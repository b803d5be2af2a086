/// Softmax along the rows of a batch of matrices.
#pragma once

#include <nullscope/core/view.hpp>

#include "kernels/linalg/row.hpp"
#include "kernels/simd/pack_math.hpp"

namespace nullscope::kernels {

/// y (batch, rows, columns) = exp(x - m) / sum with m the maximum of the row; log_sum_exp (batch, rows) = m + log(sum)
/// is optional. A group takes `rows_per_group` rows one after the other. One loop per row computes the exponentials of
/// this row, the maximum of the row after the next, and divides the previous row by its sum: memory is read and written
/// while the lanes compute, and no row waits for the last sums of another. Exponentials are kept in y, or, if it
/// streams, in local memory.
template <class T, int W, int Items, bool Streams>
struct row_softmax {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;
  using numbers = pack<T, W>;
  static constexpr T infinity = std::numeric_limits<T>::infinity();
  static constexpr int slots = W > 1 ? 1 : 4;
  static constexpr bool fetches = Streams || fills_512_bits<T, W>;

  view<const T, 3> x;
  view<T, 3> y;
  view<T, 2> log_sum_exp;  // null: not wanted
  std::int64_t rows_per_group;
  exp_of_nonpositive_numbers<T> exponential = {};
  std::int64_t busy_groups = all_groups;  // the launch sets it, and puts several into a work-group

  /// Elements of a row of exponentials in local memory; there are two, used in turn.
  static constexpr std::int64_t kept_stride(std::int64_t columns) { return (columns + W - 1) / W * W; }
  static constexpr std::int64_t kept_bytes(std::int64_t columns) {
    return Streams ? 2 * kept_stride(columns) * static_cast<std::int64_t>(sizeof(T)) : 0;
  }

  /// A row whose exponentials have been computed and must be divided by their sum.
  struct finished_row {
    row<T, W> kept;
    row<T, W, Streams> out;
    T factor;
  };

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    group<Items> members(item, local, busy_groups);
    row_range rows(x, members.number(), rows_per_group), ahead = rows;
    T maximum = maximum_of(members, rows.current()), next_maximum = 0, far_maximum = 0;
    ahead.advance(1);
    if (Items == 1 && !ahead.empty()) next_maximum = maximum_of(members, ahead.current());
    finished_row before{};
    for (int turn = 0; !rows.empty(); turn ^= 1) {
      const row_index i = rows.current();
      finished_row current{kept_row(local, i, turn), row_of<W, Streams>(y, i), T(1)};
      if (before.out.data == nullptr) before = current;  // divided by 1 now, by its sum later
      if (!ahead.empty()) ahead.advance(1);
      current.factor =
          one_row(members, i, maximum, current.kept, before, ahead.empty() ? i : ahead.current(), far_maximum);
      before = current;
      rows.advance(1);
      if constexpr (Items == 1) {
        maximum = next_maximum;
        next_maximum = far_maximum;
      } else {
        finish(members, current);
        if (!rows.empty()) maximum = maximum_of(members, rows.current());
      }
    }
    if constexpr (Items == 1) finish(members, before);
  }

  /// Ignores NaN; the exponentials bring it back.
  T maximum_of(group<Items>& members, row_index i) const {
    const auto larger = [](auto a, auto b) { return max(a, b); };
    T maximum[1];
    reduce_rows<T, W>(
        members, x.extent[2], -infinity,
        [&](int, std::int64_t c, auto lanes) { return row_of<W>(x, i).load(c, lanes, -infinity); }, larger, larger,
        maximum);
    return maximum[0];
  }

  /// Where the exponentials of a row are kept.
  row<T, W> kept_row(std::byte* local, row_index i, int turn) const {
    if constexpr (Streams) {
      return {reinterpret_cast<T*>(local) + turn * kept_stride(x.extent[2]), 1};
    } else {
      return row_of<W>(y, i);
    }
  }

  void finish(const group<Items>& members, const finished_row& row) const {
    walk<W, slots>(members, x.extent[2], [&](auto, std::int64_t c, auto lanes) { divide(row, c, lanes); });
  }

  template <class Lanes>
  static void divide(const finished_row& row, std::int64_t column, Lanes lanes) {
    row.out.store(column, row.kept.load(column, lanes) * numbers(row.factor), lanes);
  }

  /// Computes the exponentials of row i and returns the factor to multiply them by; if Items is 1, also the maximum of
  /// row `far`.
  T one_row(group<Items>& members, row_index i, T maximum, row<T, W> kept, const finished_row& before, row_index far,
            T& far_maximum) const {
    const auto larger = [](auto a, auto b) { return max(a, b); };
    const auto from = row_of<W>(x, i), from_far = row_of<W>(x, far);
    [[maybe_unused]] const std::int64_t distance = fetch_distance<1>(x);
    const T offset = maximum == -infinity ? T(0) : maximum;  // -inf - -inf would be NaN
    numbers sum[slots], largest(-infinity);
    unrolled<slots>([&](auto slot) { sum[slot] = numbers(0); });
    walk<W, slots>(members, x.extent[2], [&](auto slot, std::int64_t c, auto lanes) {
      if constexpr (fetches) from.fetch(c, distance, lanes);
      const numbers e = scaled_exp_of_nonpositive(from.load(c, lanes, -infinity) - numbers(offset), exponential);
      kept.store(c, e, lanes);
      sum[slot] += e;
      if constexpr (Items == 1) {
        largest = max(from_far.load(c, lanes, -infinity), largest);
        divide(before, c, lanes);
      }
    });
    if constexpr (Items == 1) far_maximum = kernels::reduce(largest, larger);
    T total = members.sum(merge_slots(sum, [](auto a, auto b) { return a + b; }));
    if (maximum == -infinity && total == total) total = 0;  // scaled exponentials of -inf are not quite 0
    if (log_sum_exp.data != nullptr && members.rank() == 0) {
      log_sum_exp(i.batch, i.row) = offset + sycl::log(total * exp_scale<T>);
    }
    return total == 0 ? T(0) : 1 / total;  // a row of -inf gives zeros
  }
};

}  // namespace nullscope::kernels

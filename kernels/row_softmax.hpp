/// Softmax along the rows of a batch of matrices.
#pragma once

#include <nullscope/view.hpp>

#include "pack_math.hpp"
#include "row.hpp"

namespace nullscope::kernels {

/// y (batch, rows, columns) = exp(x - m) / sum, m the row's maximum; log_sum_exp (batch, rows) = m + log(sum), if asked
/// for. A team takes `rows_per_group` rows, one after the other, in one loop a row: the exponentials of this row, the
/// maximum of the one after the next, and the division of the one before by its sum, so that memory is read and written
/// while the lanes compute, and no row waits for the last sums of another. Exponentials wait where the result will be,
/// or, if it streams, in local memory.
///
/// Share of the bandwidth of a copy, in one run each, of three loops with one row of maxima ahead; the same four rows
/// at once; one loop; one loop that fetches 16 KiB ahead:
///   65536 x 1024 float, streaming: - 0.67 0.66 0.88;  6144 x 512 float: 0.70 0.58 0.71 0.77
/// With registers of 256 bits (Zen 4 without AVX-512), medians in turns, time by that of packs of 512 bits in two
/// registers with e^r and constants; powers of two and numbers as arguments in such packs; in packs of 256 bits; those
/// with the polynomial by pairs:
///   65536 x 1024 float, streaming: 0.90 0.72 0.77;  6144 x 512 float: 0.92 0.70 0.78
/// Without fetching the third takes 1.21 times as long streaming, 0.90 in the caches. On Zen 3, two, three or four
/// packs at a time whose steps are interleaved by force, as a core waits for the steps of one: 1.03 1.13 1.11
/// streaming, 1.03 1.01 0.97 in the caches.
template <class T, int W, int Items, bool Streams>
struct row_softmax {
  static constexpr const char* source = "row_softmax.hpp";
  static constexpr int dimensions = 1;
  static constexpr bool one_work_item = Items == 1;
  using numbers = pack<T, W>;
  static constexpr T infinity = std::numeric_limits<T>::infinity();
  static constexpr int slots = W > 1 ? 1 : 4;
  static constexpr bool fetches = Streams || fills_512_bits<T, W>;

  view<const T, 3> x;
  view<T, 3> y;
  view<T, 2> log_sum_exp;  // null: not asked for
  std::int64_t rows_per_group;
  exp_of_nonpositive_numbers<T> exponential = {};

  /// A row of exponentials in local memory, in elements; two take turns.
  static constexpr std::int64_t kept_stride(std::int64_t columns) { return (columns + W - 1) / W * W; }
  static constexpr std::int64_t kept_bytes(std::int64_t columns) {
    return Streams ? 2 * kept_stride(columns) * static_cast<std::int64_t>(sizeof(T)) : 0;
  }

  /// A row whose exponentials are there, to be divided by their sum.
  struct finished_row {
    row<T, W> kept;
    row<T, W, Streams> out;
    T factor;
  };

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    team<Items> members(item, local);
    row_range rows(x, item.get_group(0), rows_per_group), ahead = rows;
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

  /// NaN is passed over here; it comes back with the exponentials.
  T maximum_of(team<Items>& members, row_index i) const {
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

  void finish(const team<Items>& members, const finished_row& row) const {
    walk<W, slots>(members, x.extent[2], [&](auto, std::int64_t c, auto lanes) { divide(row, c, lanes); });
  }

  template <class Lanes>
  static void divide(const finished_row& row, std::int64_t column, Lanes lanes) {
    row.out.store(column, row.kept.load(column, lanes) * numbers(row.factor), lanes);
  }

  /// The exponentials of row i, and what they have to be multiplied with; the maximum of row `far`, if Items is 1.
  T one_row(team<Items>& members, row_index i, T maximum, row<T, W> kept, const finished_row& before, row_index far,
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
    if (maximum == -infinity && total == total) total = 0;  // of e^-inf the scale leaves a little
    if (log_sum_exp.data != nullptr && members.rank() == 0) {
      log_sum_exp(i.batch, i.row) = offset + sycl::log(total * exp_scale<T>);
    }
    return total == 0 ? T(0) : 1 / total;  // a row of -inf gives zeros
  }
};

}  // namespace nullscope::kernels

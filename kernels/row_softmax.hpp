/// Softmax along the rows of a batch of matrices.
#pragma once

#include <nullscope/view.hpp>

#include "pack_math.hpp"
#include "row.hpp"

namespace nullscope::kernels {

/// y (batch, rows, columns) = exp(x - m) / sum, m the row's maximum; log_sum_exp (batch, rows) = m + log(sum), if asked
/// for. A team takes `rows_per_group` rows. Three passes; the second and the third find their rows in cache. The maxima
/// of the next rows are looked for during the exponentials: memory works while the lanes compute. If it streams, the
/// exponentials wait in local memory, and y is written once, past the caches; then four rows at once keep more memory
/// busy. (In cache four at once took 1.8 times as long as one.)
template <class T, int W, int Items, bool Streams>
struct row_softmax {
  static constexpr const char* source = "row_softmax.hpp";
  static constexpr int dimensions = 1;
  static constexpr bool one_work_item = Items == 1;
  static constexpr int at_once = Items == 1 && W > 1 && Streams ? 4 : 1;
  using numbers = pack<T, W>;
  static constexpr T infinity = std::numeric_limits<T>::infinity();

  view<const T, 3> x;
  view<T, 3> y;
  view<T, 2> log_sum_exp;  // null: not asked for
  std::int64_t rows_per_group;

  /// A row of exponentials in local memory, in elements.
  static constexpr std::int64_t kept_stride(std::int64_t columns) { return (columns + W - 1) / W * W; }
  static constexpr std::int64_t kept_bytes(std::int64_t columns) {
    return Streams ? at_once * kept_stride(columns) * static_cast<std::int64_t>(sizeof(T)) : 0;
  }

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    team<Items> members(item, local);
    row_range rows(x, item.get_group(0), rows_per_group);
    T maximum[at_once];
    bool is_known = false;
    while (rows.has(at_once)) {
      const row_index i = rows.current();
      if (!is_known) maxima_of(members, i, maximum);
      rows.advance(at_once);
      is_known = Items == 1 && rows.has(at_once);
      some_rows(members, local, i, maximum, is_known ? rows.current() : i);
    }
    if constexpr (at_once > 1) {
      for (; !rows.empty(); rows.advance(1)) {
        T one[1];
        maxima_of(members, rows.current(), one);
        some_rows(members, local, rows.current(), one, rows.current());
      }
    }
  }

  /// NaN is passed over here; it comes back with the exponentials.
  template <int Rows>
  void maxima_of(team<Items>& members, row_index i, T (&maximum)[Rows]) const {
    const auto larger = [](auto a, auto b) { return max(a, b); };
    reduce_rows<T, W>(
        members, x.extent[2], -infinity,
        [&](int r, std::int64_t c, auto lanes) { return row_of<W>(x, i, r).load(c, lanes, -infinity); }, larger, larger,
        maximum);
  }

  /// Row r of the exponentials: in local memory, or where the result will be.
  auto kept_row(std::byte* local, row_index i, int r) const {
    if constexpr (Streams) {
      return row<T, W>{reinterpret_cast<T*>(local) + r * kept_stride(x.extent[2]), 1};
    } else {
      return row_of<W>(y, i, r);
    }
  }

  /// `maximum` holds the maxima of these rows, and then, if Items is 1, those of the rows from `next` on.
  template <int Rows>
  void some_rows(team<Items>& members, std::byte* local, row_index i, T (&maximum)[Rows], row_index next) const {
    const std::int64_t columns = x.extent[2];
    constexpr int slots = sum_slots<W>;
    T offset[Rows];
    numbers sum[Rows][slots], ahead[Rows], factor[Rows];
    unrolled<Rows>([&](auto r) {
      offset[r] = maximum[r] == -infinity ? T(0) : maximum[r];  // -inf - -inf would be NaN
      unrolled<slots>([&](auto slot) { sum[r][slot] = numbers(0); });
      ahead[r] = numbers(-infinity);
    });
    walk<W, slots>(members, columns, [&](auto slot, std::int64_t c, auto lanes) {
      unrolled<Rows>([&](auto r) {
        const numbers e = exp_of_nonpositive(row_of<W>(x, i, r).load(c, lanes, -infinity) - numbers(offset[r]));
        kept_row(local, i, r).store(c, e, lanes);
        sum[r][slot] += e;
        if constexpr (Items == 1) ahead[r] = max(row_of<W>(x, next, r).load(c, lanes, -infinity), ahead[r]);
      });
    });
    unrolled<Rows>([&](auto r) {
      const T total = members.sum(merge_slots(sum[r], [](auto a, auto b) { return a + b; }));
      factor[r] = numbers(total == 0 ? T(0) : 1 / total);  // a row of -inf gives zeros
      if (log_sum_exp.data != nullptr && members.rank() == 0) {
        log_sum_exp(i.batch, i.row + r) = offset[r] + sycl::log(total);
      }
      if constexpr (Items == 1) maximum[r] = largest(ahead[r]);
    });
    walk<W, slots>(members, columns, [&](auto, std::int64_t c, auto lanes) {
      unrolled<Rows>([&](auto r) {
        row_of<W, Streams>(y, i, r).store(c, kept_row(local, i, r).load(c, lanes) * factor[r], lanes);
      });
    });
  }
};

}  // namespace nullscope::kernels

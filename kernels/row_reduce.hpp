/// Sums, maxima and norms along the rows of a batch of matrices.
#pragma once

#include <nullscope/view.hpp>

#include "row.hpp"

namespace nullscope::kernels {

/// What a reduction makes of the elements of a row. `norm` is the Euclidean norm, without overflow or underflow on the
/// way.
enum class reduction { sum, maximum, sum_of_squares, norm };

/// What totals of T begin with.
template <reduction Kind, class T>
inline constexpr T identity_of = Kind == reduction::maximum ? -std::numeric_limits<T>::infinity() : T(0);

/// The total with one more element.
template <reduction Kind, class Pack>
Pack add_element(Pack element, Pack total) {
  if constexpr (Kind == reduction::maximum) return max_or_nan(element, total);
  if constexpr (Kind == reduction::sum) return element + total;
  return fma(element, element, total);
}

/// The total of two parts.
template <reduction Kind, class Pack>
Pack merge_totals(Pack a, Pack b) {
  if constexpr (Kind == reduction::maximum) return max_or_nan(a, b);
  return a + b;
}

/// out (batch, rows) = the reduction of x (batch, rows, columns) along its columns. A team takes `rows_per_group` rows
/// (fewer than four, or a multiple of four); on a CPU in four parts side by side, a row of each at once.
///
/// Share of the bandwidth of a copy of x, with AVX-512, in one run each: one row after the other 0.65, four neighbours
/// at once 0.7, eight 0.72; fetching as well 0.75, 0.84, 0.79 from main memory; all about 0.9 from a last-level cache.
/// The maximum took 1.15 times as long with max_or_nan in place of max and a sum, which is NaN if an element is.
///
/// From main memory that is what such a core can read: 13 GB/s, where a copy moves 17, as stores past the caches do not
/// wait with the loads for the same few lines. Two, four or eight rows, once or twice as far ahead, 2 to 4096
/// work-groups, huge pages: all within 0.02; fetched into the first cache 0.04 less, not fetched 0.1 less. Native loops
/// that only read, 1 to 8 streams, near each other or far apart, with and without fetching, in small and huge pages:
/// 0.68 to 0.81.
///
/// Zen 3 reads ahead by itself, best in streams that are pages apart, and fetching is in its way. Native loops of 1, 2,
/// 4 and 8 streams that are far apart 0.73 0.90 1.03 0.95, four that fetch as well 0.86; four neighbouring rows 0.91,
/// fetching 0.73. The kernel, medians in turns: four neighbouring rows, fetching, 0.69; four parts 0.82.
template <class T, reduction Kind, int W, int Items>
struct row_reduce {
  static constexpr const char* source = "row_reduce.hpp";
  static constexpr int dimensions = 1;
  static constexpr bool one_work_item = Items == 1;
  static constexpr int at_once = Items == 1 && W > 1 ? 4 : 1;
  using number = number_of<T>;
  using numbers = pack<number, W>;

  view<const T, 3> x;
  view<number, 2> out;
  std::int64_t rows_per_group;

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    team<Items> members(item, local);
    const std::int64_t group = item.get_group(0);
    if (at_once > 1 && rows_per_group >= at_once) {
      in_parts(members, group, std::make_integer_sequence<int, at_once>{});
    } else {
      one_by_one(members, row_range(x, group, rows_per_group));
    }
  }

  /// One row of each part of the group's rows at once.
  template <int... Part>
  void in_parts(team<Items>& members, std::int64_t group, std::integer_sequence<int, Part...>) const {
    row_range rows[] = {row_range(x, group * at_once + Part, rows_per_group / at_once)...};
    for (; !rows[at_once - 1].empty(); (rows[Part].advance(1), ...)) {
      some_rows<at_once>(members, {rows[Part].current()...});
    }
    (one_by_one(members, rows[Part]), ...);
  }

  void one_by_one(team<Items>& members, row_range rows) const {
    for (; !rows.empty(); rows.advance(1)) some_rows<1>(members, {rows.current()});
  }

  template <int Rows>
  void some_rows(team<Items>& members, const row_index (&rows)[Rows]) const {
    // The maximum that passes over NaN takes one instruction; the sum of the row tells whether there was one.
    constexpr bool has_check = Kind == reduction::maximum && at_once > 1;
    constexpr number identity = identity_of<Kind, number>;
    [[maybe_unused]] const std::int64_t distance = fetch_distance<1>(x);
    number result[Rows];
    numbers check[Rows];
    unrolled<Rows>([&](auto r) { check[r] = numbers(0); });
    reduce_rows<number, W>(
        members, x.extent[2], identity,
        [&](auto r, std::int64_t c, auto lanes) {
          const auto from = row_of<W>(x, rows[r]);
          if constexpr (fills_512_bits<T, W>) from.fetch(c, distance, lanes);
          const numbers element = from.load(c, lanes, identity);
          if constexpr (has_check) check[r] += element;
          return element;
        },
        [](auto element, auto total) {
          if constexpr (has_check) return max(element, total);
          return add_element<Kind>(element, total);
        },
        [](auto a, auto b) {
          if constexpr (has_check) return max(a, b);
          return merge_totals<Kind>(a, b);
        },
        result);
    unrolled<Rows>([&](auto r) {
      const row<const T, W> from = row_of<W>(x, rows[r]);
      if constexpr (Kind == reduction::norm) result[r] = norm_of(members, from, result[r]);
      if constexpr (has_check) {
        const number sum = kernels::sum(check[r]);
        if (sum != sum) result[r] = maximum_or_nan(members, from);  // NaN, or infinity - infinity
      }
      if (members.rank() == 0) out(rows[r].batch, rows[r].row) = result[r];
    });
  }

  number maximum_or_nan(team<Items>& members, row<const T, W> from) const {
    constexpr number identity = identity_of<Kind, number>;
    const auto larger = [](auto a, auto b) { return max_or_nan(a, b); };
    number result[1];
    reduce_rows<number, W>(
        members, x.extent[2], identity, [&](int, std::int64_t c, auto lanes) { return from.load(c, lanes, identity); },
        larger, larger, result);
    return result[0];
  }

  number norm_of(team<Items>& members, row<const T, W> from, number squares) const {
    constexpr number infinity = std::numeric_limits<number>::infinity();
    // Squares in the range of normal numbers have neither overflowed nor lost much to underflow.
    constexpr number safe = std::numeric_limits<number>::min() / std::numeric_limits<number>::epsilon();
    if (squares >= safe && squares < infinity) return sycl::sqrt(squares);
    number largest[1], scaled[1];
    reduce_rows<number, W>(
        members, x.extent[2], number(0), [&](int, std::int64_t c, auto lanes) { return abs(from.load(c, lanes)); },
        [](auto a, auto b) { return max_or_nan(a, b); }, [](auto a, auto b) { return max_or_nan(a, b); }, largest);
    if (!(largest[0] > 0 && largest[0] < infinity)) return largest[0];  // 0, infinity, NaN
    reduce_rows<number, W>(
        members, x.extent[2], number(0),
        [&](int, std::int64_t c, auto lanes) { return from.load(c, lanes) / numbers(largest[0]); },
        [](auto element, auto total) { return fma(element, element, total); }, [](auto a, auto b) { return a + b; },
        scaled);
    return largest[0] * sycl::sqrt(scaled[0]);
  }
};

}  // namespace nullscope::kernels

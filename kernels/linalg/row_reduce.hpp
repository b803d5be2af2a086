/// Sums, maxima and norms along the rows of a batch of matrices.
#pragma once

#include <nullscope/core/view.hpp>

#include "kernels/linalg/row.hpp"

namespace nullscope::kernels {

/// What a reduction computes from the elements of a row. `norm` is the Euclidean norm, without intermediate overflow or
/// underflow.
enum class reduction { sum, maximum, sum_of_squares, norm };

/// The initial value of a total.
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

/// out (batch, rows) = the reduction of x (batch, rows, columns) along its columns. A group takes `rows_per_group` rows
/// (fewer than four, or a multiple of four). On a CPU it splits them into four parts and takes a row of each at the
/// same time: far apart, they suit hardware prefetchers best. Only AVX-512 prefetches in software as well.
template <class T, reduction Kind, int W, int Items>
struct row_reduce {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;
  static constexpr int at_once = Items == 1 && W > 1 ? 4 : 1;
  using number = number_of<T>;
  using numbers = pack<number, W>;

  view<const T, 3> x;
  view<number, 2> out;
  std::int64_t rows_per_group;
  std::int64_t busy_groups = all_groups;  // the launch sets it, and puts several into a work-group

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    group<Items> members(item, local, busy_groups);
    if (at_once > 1 && rows_per_group >= at_once) {
      in_parts(members, std::make_integer_sequence<int, at_once>{});
    } else {
      one_by_one(members, row_range(x, members.number(), rows_per_group));
    }
  }

  /// One row of each part of the group's rows at a time.
  template <int... Part>
  void in_parts(group<Items>& members, std::integer_sequence<int, Part...>) const {
    row_range rows[] = {row_range(x, members.number() * at_once + Part, rows_per_group / at_once)...};
    for (; !rows[at_once - 1].empty(); (rows[Part].advance(1), ...)) {
      some_rows<at_once>(members, {rows[Part].current()...});
    }
    (one_by_one(members, rows[Part]), ...);
  }

  void one_by_one(group<Items>& members, row_range rows) const {
    for (; !rows.empty(); rows.advance(1)) some_rows<1>(members, {rows.current()});
  }

  template <int Rows>
  void some_rows(group<Items>& members, const row_index (&rows)[Rows]) const {
    // A maximum that ignores NaN takes one instruction; the sum of the row tells whether there was a NaN.
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

  number maximum_or_nan(group<Items>& members, row<const T, W> from) const {
    constexpr number identity = identity_of<Kind, number>;
    const auto larger = [](auto a, auto b) { return max_or_nan(a, b); };
    number result[1];
    reduce_rows<number, W>(
        members, x.extent[2], identity, [&](int, std::int64_t c, auto lanes) { return from.load(c, lanes, identity); },
        larger, larger, result);
    return result[0];
  }

  number norm_of(group<Items>& members, row<const T, W> from, number squares) const {
    constexpr number infinity = std::numeric_limits<number>::infinity();
    // A sum of squares in this range has neither overflowed nor lost much to underflow.
    constexpr number safe = std::numeric_limits<number>::min() / std::numeric_limits<number>::epsilon();
    const bool is_safe = squares >= safe && squares < infinity;
    if (!members.anywhere(!is_safe)) return sycl::sqrt(squares);
    number largest[1], scaled[1];
    reduce_rows<number, W>(
        members, x.extent[2], number(0), [&](int, std::int64_t c, auto lanes) { return abs(from.load(c, lanes)); },
        [](auto a, auto b) { return max_or_nan(a, b); }, [](auto a, auto b) { return max_or_nan(a, b); }, largest);
    const bool has_length = largest[0] > 0 && largest[0] < infinity;  // otherwise it is 0, infinity or NaN
    const numbers divisor(has_length ? largest[0] : number(1));
    reduce_rows<number, W>(
        members, x.extent[2], number(0), [&](int, std::int64_t c, auto lanes) { return from.load(c, lanes) / divisor; },
        [](auto element, auto total) { return fma(element, element, total); }, [](auto a, auto b) { return a + b; },
        scaled);
    if (is_safe) return sycl::sqrt(squares);
    return has_length ? largest[0] * sycl::sqrt(scaled[0]) : largest[0];
  }
};

}  // namespace nullscope::kernels
